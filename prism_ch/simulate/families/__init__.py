"""The catalogue of families (how training is parallel, where it runs, what surrounds it) and of conditions, by name.

Every family is a function of a seed, which settles all its choices, and of the number of servers.
"""

from collections.abc import Callable

from prism_ch.simulate.families import company, parallelism, placement
from prism_ch.simulate.scenario import Observation, Scenario

Family = Callable[..., Scenario]

#: Families in the order in which a table of them reads best.
FAMILIES: dict[str, Family] = {
    "ddp-fused": parallelism.ddp_fused,
    "ddp-bucketed": parallelism.ddp_bucketed,
    "ddp-tree": parallelism.ddp_tree,
    "ddp-ring-and-tree": parallelism.ddp_ring_and_tree,
    "many-channels": parallelism.many_channels,
    "gradient-accumulation": parallelism.gradient_accumulation,
    "distributed-optimizer": parallelism.distributed_optimizer,
    "distributed-optimizer-overlap": parallelism.distributed_optimizer_overlap,
    "zero2": parallelism.zero2,
    "zero3": parallelism.zero3,
    "pipeline-gpipe": parallelism.pipeline_gpipe,
    "pipeline-1f1b": parallelism.pipeline_1f1b,
    "pipeline-interleaved": parallelism.pipeline_interleaved,
    "pipeline-zero-bubble": parallelism.pipeline_zero_bubble,
    "pipeline-without-replicas": parallelism.pipeline_without_replicas,
    "tensor-across-servers": parallelism.tensor_across_servers,
    "experts": parallelism.experts,
    "context-ring": parallelism.context_ring,
    "production": parallelism.production,
    "production-staggered": parallelism.production_staggered,
    "production-straggler": parallelism.production_straggler,
    "four-nics": placement.four_nics,
    "leaf-spine": placement.leaf_spine,
    "queue-pairs": placement.queue_pairs,
    "short-steps": placement.short_steps,
    "long-steps": placement.long_steps,
    "fragmented": placement.fragmented,
    "shared-servers": placement.shared_servers,
    "one-tenant": placement.one_tenant,
    "equal-steps": placement.equal_steps,
    "start-and-end": placement.start_and_end,
    "restart-elsewhere": placement.restart_elsewhere,
    "lose-and-regain": placement.lose_and_regain,
    "restarts": placement.restarts,
    "one-after-another": placement.one_after_another,
    "one-server": placement.one_server,
    "startup-mesh": company.startup_mesh,
    "checkpoints": company.checkpoints,
    "evaluation": company.evaluation,
    "late-data": company.late_data,
    "storage-hub": company.storage_hub,
    "monitoring": company.monitoring,
    "inference-beside": company.inference_beside,
}

#: How records may be taken; any of them goes with any family.
CONDITIONS: dict[str, Observation] = {
    "clean": Observation(),
    "loss-0.5%": Observation(loss=0.005),
    "loss-2%": Observation(loss=0.02),
    "loss-2%-in-packets": Observation(loss=0.02, loss_packet=24),
    "duplicates": Observation(duplicates=0.05),
    "disorder": Observation(late=0.1, late_mean_s=20.0),
    "skew-2ms": Observation(skew_s=0.002),
    "bad-exporter-200ms": Observation(skew_s=0.002, bad_exporter_s=0.2, exporters="every", path=True),
    "1ms-times": Observation(tick_s=0.001),
    "sampling-1:100": Observation(sampling=100),
    "active-timeout": Observation(active_timeout_s=0.005),
    "idle-timeout-5ms": Observation(idle_timeout_s=0.005),
    "idle-timeout-1s": Observation(idle_timeout_s=1.0, active_timeout_s=60.0),
    "idle-timeout-15s": Observation(idle_timeout_s=15.0, active_timeout_s=60.0),
    "every-switch": Observation(exporters="every", path=True),
    "acknowledgements": Observation(acks=True),
    "tcp": Observation(transport="tcp", acks=True, idle_timeout_s=0.005),
    "all": Observation(
        exporters="every",
        loss=0.02,
        duplicates=0.01,
        late=0.02,
        skew_s=0.002,
        bad_exporter_s=0.2,
        tick_s=0.001,
        acks=True,
    ),
}

__all__ = ["CONDITIONS", "FAMILIES", "Family"]
