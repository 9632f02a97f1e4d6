"""Timeouts: what records show of when their exporters close them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.observe import timeouts
from prism_ch.analysis.observe.timeouts import infer_timeouts
from prism_ch.model.exporter import Timeouts
from prism_ch.model.params import TimeoutParams
from tests.unit.analysis.build import Flow, batch

PARAMS = TimeoutParams()
NAN = pytest.approx(np.nan, nan_ok=True)


def one(flows: Sequence[Flow]) -> tuple[float, float, float]:
    """The idle timeout, its bound, and the active timeout of the one exporter of the flows."""
    found = infer_timeouts(batch(flows), PARAMS)
    [idle], [at_most], [active] = found.idle_s, found.idle_at_most_s, found.active_s
    return float(idle), float(at_most), float(active)


def after_silences(silences_ms: Sequence[float], length_ms: float = 1.0, **changes: object) -> list[Flow]:
    """Records of one 5-tuple with the given silences between them."""
    starts = accumulate((length_ms + silence for silence in silences_ms), initial=0.0)
    return [replace(Flow(0, 1, start, length_ms), **changes) for start in starts]  # type: ignore[arg-type]


def cut(length_ms: float, active_ms: float, first_ms: float = 0.0, pause_ms: float = 0.0) -> list[Flow]:
    """One long flow as an exporter with an active timeout reports it; it pauses each time it is cut."""
    edges = np.arange(0, length_ms, active_ms).tolist()
    return [Flow(0, 1, first_ms + edge, min(active_ms - pause_ms, length_ms - edge), exporter="leaf") for edge in edges]


def test_the_shortest_silence_bounds_the_idle_timeout_from_above() -> None:
    idle, at_most, active = one(after_silences([300, 120, 900]))
    assert at_most == pytest.approx(0.12)
    assert np.isnan([idle, active]).all()


def test_silences_of_all_lengths_from_an_edge_on_show_the_idle_timeout() -> None:
    """An exponential law, cut below 15 ms: what was shorter has been joined."""
    chance = np.random.default_rng(1)
    silences = chance.exponential(20, 2000)
    idle, at_most, active = one(after_silences(silences[silences > 15].tolist()))
    assert idle == at_most == pytest.approx(0.015, rel=0.01)
    assert np.isnan(active)


def test_silences_that_recur_show_no_edge() -> None:
    chance = np.random.default_rng(2)
    steps = chance.normal(2300, 40, 500)
    idle, at_most, _ = one(after_silences(steps.tolist()))
    assert np.isnan(idle)
    assert at_most == pytest.approx(steps.min() / 1000)


def test_times_in_whole_milliseconds_show_no_edge_of_a_few() -> None:
    chance = np.random.default_rng(3)
    whole = np.ceil(chance.uniform(3, 12, 1000))
    assert np.isnan(one(after_silences(whole.tolist()))[0])


def test_records_cut_at_one_length_show_the_active_timeout() -> None:
    long = [flow for number in range(4) for flow in cut(250_000, 60_000, 400_000 * number)]
    idle, at_most, active = one(long)
    assert active == 60.0
    assert np.isnan(idle)
    assert at_most == pytest.approx(150.0)


def test_a_flow_that_pauses_while_it_is_cut_says_nothing_of_the_idle_timeout() -> None:
    """Records of 57 s, cut at 60 s, 3 s apart: the idle timeout is longer than 3 s."""
    _, at_most, active = one(cut(600_000, 60_000, pause_ms=3_000))
    assert np.isnan(at_most)
    assert np.isnan(active)


def test_buckets_of_one_size_back_to_back_are_not_cut() -> None:
    buckets = [Flow(0, 1, 1000 * step + 20.1 * bucket, 20) for step in range(50) for bucket in range(4)]
    assert np.isnan(one(buckets)[2])


def test_each_exporter_has_its_own() -> None:
    fine = after_silences([100] * 5, exporter="fine")
    coarse = [replace(flow, src=2) for flow in cut(300_000, 60_000)]
    found = infer_timeouts(batch([*fine, *coarse]), PARAMS)
    assert found.exporters == ("fine", "leaf")
    assert found.idle_at_most_s.tolist() == [pytest.approx(0.1), NAN]
    assert found.active_s.tolist() == [NAN, 60.0]


def test_records_of_different_5_tuples_do_not_follow_one_another() -> None:
    ports = [Flow(0, 1, 10 * number, 1, port=50_000 + number % 2) for number in range(10)]
    assert one(ports)[1] == pytest.approx(0.019)


def test_nothing_shows_in_no_records() -> None:
    found = infer_timeouts(batch([], ["leaf"]), PARAMS)
    assert len(found.idle_s) == len(found.exporters)
    assert np.isnan(found.idle_at_most_s).all()


def test_of_many_records_some_pairs_are_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "_MAX_RECORDS", 20)
    flows = [replace(flow, src=src, dst=src + 1) for src in range(0, 40, 2) for flow in after_silences([250] * 9)]
    found = infer_timeouts(batch(flows), PARAMS)
    assert found.idle_at_most_s.tolist() == [pytest.approx(0.25)]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_the_bound_is_never_below_the_timeout(silences_ms: list[int]) -> None:
    """Whatever the traffic, an exporter that joins what is closer than 500 ms shows no shorter silence."""
    flows, start, end = [], 0.0, 1.0
    for silence in silences_ms:
        if silence > 500:
            flows.append(Flow(0, 1, start, end - start))
            start = end + silence
        end = end + silence + 1
    flows.append(Flow(0, 1, start, end - start))
    _, at_most, _ = one(flows)
    assert np.isnan(at_most) or at_most > 0.5


def test_as_many_timeouts_as_exporters() -> None:
    with pytest.raises(ValueError, match="2 exporters, but 1 rows"):
        Timeouts(("a", "b"), np.zeros(1), np.zeros(1), np.zeros(1))
