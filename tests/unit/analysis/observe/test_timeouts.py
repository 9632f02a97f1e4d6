"""Timeouts: when exporters close records, and which records that run on over many steps show training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.observe import timeouts
from prism_ch.analysis.observe.timeouts import coarse_pairs, infer_timeouts, merged_training
from prism_ch.model.exporter import Timeouts
from prism_ch.model.params import MergedParams, TimeoutParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import MB, Flow, batch, every, ring, topology, traffic

PARAMS, MERGED = TimeoutParams(), MergedParams()
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


def test_silences_from_an_edge_on_show_the_idle_timeout() -> None:
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


def test_pause_of_a_cut_flow_is_no_idle_timeout() -> None:
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


MINUTE = 60_000
GB = 1000 * MB


def long(hops: Sequence[tuple[int, int]], size: int = 3 * GB, minutes: float = 3) -> list[Flow]:
    """One record an exporter that joins all of a flow would make: `size` bytes a minute."""
    return [Flow(src, dst, 7.0 * row, minutes * MINUTE, round(size * minutes)) for row, (src, dst) in enumerate(hops)]


def both_ways(hops: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*hops, *((dst, src) for src, dst in hops)]


def circle(members: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(members, [*members[1:], members[0]], strict=True))


def names(seen: Traffic, mask: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(seen.pair_src[mask].tolist(), seen.pair_dst[mask].tolist(), strict=True))


def training(flows: Sequence[Flow], where: Topology) -> set[tuple[int, int]]:
    """The pairs whose records run on and show training."""
    seen, records = traffic(flows), batch(flows)
    merged = coarse_pairs(seen, records, infer_timeouts(records, PARAMS), MERGED)
    return names(seen, merged_training(seen, where, merged, ~merged, MERGED))


class TestMerged:
    """Which pairs' records run on."""

    def merged(self, flows: Sequence[Flow]) -> set[tuple[int, int]]:
        seen, records = traffic(flows), batch(flows)
        return names(seen, coarse_pairs(seen, records, infer_timeouts(records, PARAMS), MERGED))

    def test_one_record_of_minutes_does(self) -> None:
        assert self.merged(long([(0, 1)])) == {(0, 1)}

    def test_records_after_short_pauses_run_on(self) -> None:
        assert self.merged([Flow(0, 1, start, 59_000) for start in every(MINUTE, 5)]) == {(0, 1)}

    def test_bursts_with_silence_between_them_do_not(self) -> None:
        assert self.merged([Flow(0, 1, start, 40_000) for start in every(MINUTE, 5)]) == set()

    def test_a_transfer_of_some_seconds_does_not(self) -> None:
        assert self.merged([Flow(0, 1, 0, 20_000, 100 * GB)]) == set()

    def test_messages_that_wait_for_one_another_do_not(self) -> None:
        """They follow at once, of any length: the exporter parts what is next to no silence."""
        lengths = [5_000, 5_000, 1] * 8
        starts = accumulate((length + 0.02 for length in lengths), initial=0.0)
        flows = [Flow(0, 1, start, length) for start, length in zip(starts, lengths, strict=False)]
        assert self.merged(flows) == set()

    def test_short_records_that_follow_at_once_do_not(self) -> None:
        """A slow NIC moves bucket after bucket, and rests where a microbatch ends: no exporter cuts like that."""
        starts = [700.0 * n + 100 * (n // 3) for n in range(60)]
        flows = [Flow(0, 1, start, 699.9 - 40 * (n % 4)) for n, start in enumerate(starts)]
        assert self.merged(flows) == set()

    def test_messages_that_others_send_more_quickly_do_not(self) -> None:
        """On a slow NIC each lasts until the next is due: it carries as much as one of those that pause."""
        slow = [Flow(0, 1, start, 4_900) for start in every(5000, 24)]
        others = [Flow(src, dst, start, 300) for src, dst in circle(range(2, 7)) for start in every(5000, 24)]
        assert self.merged([*slow, *others]) == set()
        assert self.merged(slow) == {(0, 1)}

    def test_what_is_cut_at_an_active_timeout_does(self) -> None:
        assert self.merged(cut(120_000, 10_000, pause_ms=0.02)) == {(0, 1)}

    def test_bursts_of_a_job_that_mostly_communicates_do_not(self) -> None:
        assert self.merged([Flow(0, 1, start, 950) for start in every(1000, 100)]) == set()


class TestTraining:
    """Which of them show training."""

    def test_a_ring_does(self) -> None:
        hops = circle(range(6))
        assert training(long(hops), topology(6)) == set(hops)

    def test_a_pipeline_does(self) -> None:
        hops = both_ways([(0, 1), (1, 2), (2, 3)])
        assert training(long(hops), topology(4)) == set(hops)

    def test_rings_that_change_rails_in_a_server_show_training(self) -> None:
        hops = [(2 * server + server % 2, 2 * ((server + 1) % 4) + server % 2) for server in range(4)]
        assert training(long(hops), topology(4, gpus=2)) == set(hops)

    def test_rings_of_two_kinds_on_shared_pairs_show_training(self) -> None:
        """On each rail a ring over all servers, and two over half of them each: what both use carries more."""
        volume = dict.fromkeys(circle(range(8)), 3 * GB)
        for hop in [*circle(range(4)), *circle(range(4, 8))]:
            volume[hop] = volume.get(hop, 0) + 7 * GB
        rails = {(2 * a + rail, 2 * b + rail): size for (a, b), size in volume.items() for rail in range(2)}
        flows = [flow for hop, size in rails.items() for flow in long([hop], size)]
        assert training(flows, topology(8, gpus=2)) == set(rails)

    def test_a_link_does_of_which_another_exporter_shows_the_answers(self) -> None:
        """Each way along the chain is a class of its own only together with the other."""
        there = [(stage, stage + 1) for stage in range(4)]
        answers = [Flow(dst, src, moment, 10, 75 * MB) for src, dst in there for moment in every(1500, 120)]
        assert training([*long(there), *answers], topology(5)) == set(there)
        assert training(long(there), topology(5)) == set()

    @pytest.mark.parametrize("share", [0.03, 1.0])
    def test_reading_from_storage_does_not(self, share: float) -> None:
        """All read equally much, all the time, and write some of it back."""
        reads = long([(0, reader) for reader in range(1, 9)])
        writes = long([(reader, 0) for reader in range(1, 9)], round(3 * GB * share / 2))
        assert training([*reads, *writes], topology(9)) == set()

    def test_serving_does_not(self) -> None:
        """Key-value caches go from prefill to decoding, as clients ask for them."""
        chance = np.random.default_rng(4)
        sizes = chance.lognormal(0, 1, 16) * GB
        hops = [(prefill, 4 + decode) for prefill in range(4) for decode in range(4)]
        flows = [replace(long([hop])[0], size=round(size)) for hop, size in zip(hops, sizes, strict=True)]
        assert training(flows, topology(8)) == set()

    def test_a_broadcast_along_a_chain_does_not(self) -> None:
        assert training(long([(server, server + 1) for server in range(7)]), topology(8)) == set()

    def test_a_mesh_does_not(self) -> None:
        """A shuffle, or a store that keeps copies: everyone sends everyone as much."""
        mesh = [(a, b) for a in range(8) for b in range(8) if a != b]
        assert training(long(mesh), topology(8)) == set()

    def test_heartbeats_round_a_ring_do_not(self) -> None:
        assert training(long(circle(range(6)), 60_000), topology(6)) == set()

    def test_two_streams_that_happen_to_be_equal_do_not(self) -> None:
        assert training(long(both_ways([(0, 1)])), topology(2)) == set()

    def test_a_ring_of_unequal_volumes_does_not(self) -> None:
        flows = [replace(flow, size=flow.size * (1 + row)) for row, flow in enumerate(long(circle(range(6))))]
        assert training(flows, topology(6)) == set()

    def test_nothing_crosses_tenants_or_stays_in_a_server(self) -> None:
        assert training(long(circle(range(6))), topology(6, tenants=("red", "blue"))) == set()
        assert training(long(circle(range(6))), topology(1, gpus=6)) == set()

    def test_a_lost_pair_in_a_rail_of_many_does_not_matter(self) -> None:
        hops = [(8 * a + rail, 8 * b + rail) for rail in range(8) for a, b in circle(range(4))]
        assert training(long(hops[1:]), topology(4, gpus=8)) == set(hops[1:])

    def test_bursts_of_steps_are_not_merged(self) -> None:
        assert training(ring(range(4), every(1000, 60)), topology(4)) == set()
