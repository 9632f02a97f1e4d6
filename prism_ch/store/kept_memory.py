"""What is known after a window, and the flows it was read by, kept by the worker for the next one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from prism_ch.model.finding import Finding
from prism_ch.model.flow_span import ReadFlows
from prism_ch.model.memory import WindowMemory, clocks_since_ns
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.settings import Pushdown
from prism_ch.store.client import Store
from prism_ch.store.ledger import Claim
from prism_ch.store.pull import PullChoice
from prism_ch.store.topology import TopologyLoad, read_topology

#: Windows that start in one of these spans go on from what is kept; the first of the next reads the database, so that
#: what is past its retention is forgotten as after a restart.
_SPAN_NS = 3600 * 10**9
#: Of more flows none are kept: 20 million take a GiB, which the next window needs for its own, and reading them again
#: takes a few seconds where looking at them takes minutes.
_KEPT_FLOWS = 20_000_000


@dataclass(frozen=True, slots=True)
class Before:
    """What is known before a window, and flows that need not be read again for it."""

    memory: WindowMemory
    flows: ReadFlows = field(default_factory=ReadFlows)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept for a window that starts at `start_ns` and takes `revision`; `endpoints` are those it names."""

    start_ns: int
    revision: int
    inputs: int
    endpoints: tuple[str, ...]
    before: Before


class KeptMemory:
    """Spares a worker to read again what it has just published or read: memory, flows and topology.

    It is what the database would give: revisions are numbered one after the other, so that a claim of the next number
    shows that nobody has published since. Flows that have landed since in an earlier window make that one due again,
    and all after it. Not for two databases, nor for two threads at once.
    `pulls` knows what it cost to read flows.
    """

    def __init__(self, pushdown: Pushdown = "auto") -> None:
        self.pulls = PullChoice(pushdown)
        self._kept: _Kept | None = None
        self._topology: tuple[TopologyLoad, Topology] | None = None

    def topology(self, store: Store, load: TopologyLoad | None, at_ns: int) -> Topology:
        """Return the topology at a time. It is read again where it may not be that of before.

        Parameters: `load`, the latest one, None where it is not known.
        """
        if load is None or load.bounded:
            return read_topology(store, at_ns)
        if self._topology is None or self._topology[0] != load:
            self._topology = load, read_topology(store, at_ns)
        return self._topology[1]

    def before(self, claim: Claim, topology: Topology) -> Before | None:
        """Return what is known before a claimed window, None if only the database knows."""
        kept, start_ns = self._kept, claim.window.start_ns
        self._kept = None
        if kept is None or start_ns % _SPAN_NS == 0 or kept.endpoints != topology.endpoints:
            return None
        expected = (kept.start_ns, kept.revision, kept.inputs)
        return kept.before if expected == (start_ns, claim.revision, claim.inputs) else None

    def keep(self, claim: Claim, topology: Topology, known: Before, params: Params) -> None:
        """Keep what is known after a claimed window, all of it published.

        Parameters: `known`, with the flows that the window was analysed by.
        """
        memory = known.memory
        after = Window(claim.window.end_ns, 2 * claim.window.end_ns - claim.window.start_ns)
        exporters = memory.exporters.since(clocks_since_ns(after, memory.jobs, params))
        jobs = tuple(
            replace(job, findings=_remembered(job.findings), pauses=_remembered(job.pauses)) for job in memory.jobs
        )
        memory = replace(memory, jobs=jobs, findings=_remembered(memory.findings), exporters=exporters)
        flows = known.flows if len(known.flows.flows) <= _KEPT_FLOWS else ReadFlows()
        before = Before(memory, flows)
        self._kept = _Kept(after.start_ns, claim.revision + 1, claim.inputs, topology.endpoints, before)


def _remembered(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(finding.remembered() for finding in findings)
