"""How right findings are: faults injected into runs of many families and sizes, and healthy runs of all families."""

from tests.bench.accuracy.faults.cases import all_cases
from tests.bench.accuracy.faults.healthy import NOTHING_HEARD, all_runs
from tests.bench.accuracy.faults.healthy import work as listen
from tests.bench.accuracy.faults.outcome import NOTHING_FOUND
from tests.bench.accuracy.faults.outcome import work as find
from tests.bench.accuracy.faults.tables import healthy_table, kinds_table, magnitudes_table, thresholds_table

__all__ = [
    "NOTHING_FOUND",
    "NOTHING_HEARD",
    "all_cases",
    "all_runs",
    "find",
    "healthy_table",
    "kinds_table",
    "listen",
    "magnitudes_table",
    "thresholds_table",
]
