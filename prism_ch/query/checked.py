"""A checked statement, and the settings under which the engine runs it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from prism_ch.query.tenancy import filter_setting, row_filters


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may use up; 0 is no limit."""

    time_s: float = 300.0
    memory_bytes: int = 8 << 30
    rows_read: int = 0
    result_rows: int = 0
    result_bytes: int = 0


#: An operator's statement may read all there is and write it to a file, but not run for ever.
OPERATOR_LIMITS = Limits()

#: A tenant shares the engine with the analysis and with other tenants. An hour of a 256-GPU job at a step a second is
#: 0.9 million rows of gpu_steps, so that weeks of one fit.
TENANT_LIMITS = Limits(
    time_s=30.0, memory_bytes=2 << 30, rows_read=2_000_000_000, result_rows=5_000_000, result_bytes=1 << 30
)


def limits_of(tenant: str | None) -> Limits:
    """Return what a statement of a tenant may use up, of an operator for None."""
    return OPERATOR_LIMITS if tenant is None else TENANT_LIMITS


_LIMIT_SETTINGS = {
    "max_execution_time": "time_s",
    "max_memory_usage": "memory_bytes",
    "max_rows_to_read": "rows_read",
    "max_result_rows": "result_rows",
    "max_result_bytes": "result_bytes",
}


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that the gate has let through: run `text` under exactly these `settings`, set in their order.

    `format` is that of a FORMAT clause, None without one. `tenant` is None for an operator.
    """

    text: str
    settings: Mapping[str, str]
    format: str | None
    tenant: str | None


#: Settings under which no condition is compared with keys of rows that are not read.
WITHOUT_INDEX = MappingProxyType(
    {
        "use_primary_key": "0",
        "use_partition_key": "0",
        "use_partition_pruning": "0",
        "use_skip_indexes": "0",
        "use_skip_indexes_on_data_read": "0",
        "use_statistics_for_part_pruning": "0",
    }
)


def engine_settings(database: str, tenant: str | None, limits: Limits, requested: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to run a statement with, in their order.

    How many rows a tenant's statement may read is drawn anew each time, between half of the limit and all of it.
    Parameters: `requested`, settings that the gate has let through; limits among them can only be lowered.
    """
    settings = {name: value for name, value in requested.items() if name not in _LIMIT_SETTINGS}
    for name, field in _LIMIT_SETTINGS.items():
        bounds = [float(value) for value in (requested.get(name, 0), getattr(limits, field)) if float(value)]
        if bounds:
            settings[name] = f"{min(bounds):.15g}"
    if tenant is not None:
        if limits.rows_read:
            # The engine counts other tenants' rows too. With a constant limit a statement could add rows of its own,
            # as of numbers(), until the limit is reached, and so count theirs.
            settings["max_rows_to_read"] = str(limits.rows_read - secrets.randbelow(limits.rows_read // 2 + 1))
        settings |= {
            "additional_table_filters": filter_setting(row_filters(database, tenant)),
            # Statistics count other tenants' rows too.
            "output_format_write_statistics": "0",
            # Conditions of the statement must not run on hidden rows, or an error would reveal them. In PREWHERE they
            # may run before the filter; otherwise both are joined by AND, which is evaluated from left to right.
            "optimize_move_to_prewhere": "0",
            "query_plan_optimize_prewhere": "0",
            "short_circuit_function_evaluation": "force_enable",
            "use_query_condition_cache": "0",
            # The values of a JOIN's other side and of the first rows in order would be conditions as well.
            "enable_join_runtime_filters": "0",
            "use_top_k_dynamic_filtering": "0",
            "use_skip_indexes_for_top_k": "0",
            # The size of a hash table that an earlier statement needed, perhaps another tenant's, decides about the
            # order of groups.
            "collect_hash_table_stats_during_aggregation": "0",
            "collect_hash_table_stats_during_joins": "0",
        }
    return settings | {"readonly": "1"}
