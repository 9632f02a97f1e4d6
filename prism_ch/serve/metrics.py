"""Tells the service's measures in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from prism_ch.health.measures import MEASURES, Measure

PREFIX = "prism_ch_"


def prometheus_text(measures: Sequence[Measure]) -> bytes:
    """Write measures as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Measured(measures))
    return generate_latest(registry)


class _Measured(Collector):
    """Hands measures over as the library wants them."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        """Yield each measure with all its labels."""
        for name, (meaning, label) in MEASURES.items():
            found = [measure for measure in self._measures if measure.name == name]
            if found:
                yield _family(name, meaning, label, found)


def _family(name: str, meaning: str, label: str, found: Iterable[Measure]) -> Metric:
    """Return one measure; what only grows is a counter."""
    make: Callable[..., CounterMetricFamily | GaugeMetricFamily]
    make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = make(PREFIX + name, meaning, labels=[label] if label else [])
    for measure in found:
        family.add_metric([measure.label] if label else [], measure.value)
    return family
