"""How right findings are: faults injected into runs of many families and sizes, and healthy runs of all families."""

from bench.accuracy.faults.cases import all_cases
from bench.accuracy.faults.healthy import FAILED_RUN, all_runs
from bench.accuracy.faults.healthy import work as listen
from bench.accuracy.faults.outcome import NOTHING_FOUND
from bench.accuracy.faults.outcome import work as find
from bench.accuracy.faults.tables import healthy_table, kinds_table, magnitudes_table, thresholds_table

__all__ = [
    "FAILED_RUN",
    "NOTHING_FOUND",
    "all_cases",
    "all_runs",
    "find",
    "healthy_table",
    "kinds_table",
    "listen",
    "magnitudes_table",
    "thresholds_table",
]
