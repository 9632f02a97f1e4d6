"""Clocks: the one that is off is found, whatever traffic and records are like; nothing else is claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.analysis.observe import sightings
from prism_ch.analysis.observe.bursts import elect
from prism_ch.analysis.observe.clocks import blurs_ns, correct, estimate, reach_ns
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.exporter import ExporterHistory, ExporterStates
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ClockParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, batch, every

PARAMS = ClockParams()
SPAN_MS = 60_000
NEW = ExporterHistory.empty()
#: Two leaves and a spine between each two of four endpoints.
PATHS = {
    (0, 1): ("leaf-a", "spine", "leaf-b"),
    (1, 2): ("leaf-b", "spine", "leaf-c"),
    (0, 3): ("leaf-a", "spine", "leaf-d"),
}
EXPORTERS = ("leaf-a", "leaf-b", "leaf-c", "leaf-d", "spine")
Path = tuple[str, ...]


def moments(step_ms: float, seed: int, jitter: float = 0.02, messages: int = 8) -> list[float]:
    """When the messages of training begin: so many a step, 20 ms apart, nothing of it exact."""
    rng = np.random.default_rng(seed)
    step = step_ms * (1 + jitter * rng.standard_normal(round(SPAN_MS / step_ms)))
    begin = np.cumsum(step)[:, None] + np.arange(messages) * 20 + rng.normal(0, jitter * 20, (len(step), messages))
    found: list[float] = begin.ravel().tolist()
    return found


def seen(
    ahead_s: Mapping[str, float] = {},
    *,
    paths: Mapping[tuple[int, int], Path] = PATHS,
    at_ms: Sequence[float] | None = None,
    loss: float = 0.0,
    tick_ns: int = 1,
    sizes: Sequence[int] = (40 * MB,),
    length_ms: float = 4.0,
) -> FlowBatch:
    """Messages on all the paths, each seen by every exporter of its path, by clocks that are ahead."""
    rng = np.random.default_rng(7)
    flows = []
    for number, ((src, dst), path) in enumerate(paths.items()):
        begins = moments(900.0, number) if at_ms is None else at_ms
        for place, begin in enumerate(begins):
            kept = [name for name in path if rng.random() >= loss]
            message = Flow(src, dst, begin, length_ms, sizes[place % len(sizes)])
            flows += [replace(message, start_ms=begin + 1000 * ahead_s.get(name, 0.0), exporter=name) for name in kept]
    made = batch(flows)
    cut = {name: getattr(made, name) // tick_ns * tick_ns for name in ("start_ns", "end_ns")}
    return replace(made, **cut)


def offsets(memories: ExporterStates) -> dict[str, float]:
    return dict(zip(memories.exporters, memories.clock_offset_s.tolist(), strict=True))


def found(flows: FlowBatch, history: ExporterHistory = NEW) -> dict[str, float]:
    return offsets(estimate(flows, history, PARAMS))


def corrected(flows: FlowBatch) -> FlowBatch:
    return correct(flows, NEW.followed_by(estimate(flows, NEW, PARAMS), BEGIN_NS), PARAMS)


class TestOneClockIsOff:
    @pytest.mark.parametrize("bad", EXPORTERS)
    @pytest.mark.parametrize("ahead_s", [0.2, -0.2, 0.003, 3.0, -3.0])
    def test_it_is_found_and_all_others_are_right(self, bad: str, ahead_s: float) -> None:
        right = {name: ahead_s if name == bad else 0.0 for name in EXPORTERS}
        assert found(seen({bad: ahead_s})) == pytest.approx(right, abs=1e-5)

    def test_matches_are_counted_and_the_uncertainty_is_small(self) -> None:
        memories = estimate(seen({"spine": 0.2}), NEW, PARAMS)
        messages = len(moments(900.0, 0))
        assert memories.clock_matches[memories.exporters.index("leaf-c")] == pytest.approx(2 * messages, rel=0.02)
        assert (memories.clock_uncertainty_s < 1e-4).all()

    def test_corrected_observations_agree_and_flow_counts_once(self) -> None:
        flows = seen({"leaf-b": 0.2})
        messages = sum(len(moments(900.0, number)) for number in range(len(PATHS)))
        assert len(elect(flows, np.zeros(len(flows.exporters), dtype=np.int64))) > 1.3 * messages
        assert len(elect(corrected(flows), blurs_ns(flows.ticks_ns(), PARAMS))) == messages

    @pytest.mark.parametrize("loss", [0.02, 0.1])
    @pytest.mark.parametrize("tick_ns", [1, MS])
    def test_lost_records_and_millisecond_times_cost_little(self, loss: float, tick_ns: int) -> None:
        ahead = {"leaf-a": 0.0004, "leaf-b": 0.2, "leaf-c": -0.0017, "leaf-d": 0.0, "spine": 0.0011}
        assert found(seen(ahead, loss=loss, tick_ns=tick_ns)) == pytest.approx(
            {name: value - 0.0004 for name, value in ahead.items()}, abs=2e-4
        )

    @pytest.mark.parametrize("rows", [1, 50])
    def test_rows_sorted_some_at_a_time(self, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
        flows = seen({"leaf-b": 0.2}, loss=0.02)
        whole = found(flows)
        monkeypatch.setattr(sightings, "ROWS_AT_ONCE", rows)
        assert found(flows) == whole

    def test_exporters_that_count_differently_are_compared(self) -> None:
        flows = seen({"leaf-b": 0.2})
        counted = np.array([100, 117, 135, 151, 173])[flows.exporter]
        other = replace(flows, bytes=flows.bytes * counted // 100, packets=flows.packets * counted // 100)
        assert found(other)["leaf-b"] == pytest.approx(0.2, abs=1e-5)

    def test_an_exporter_that_cuts_records_is_compared_all_the_same(self) -> None:
        flows = seen({"leaf-b": 0.2}, length_ms=20)
        assert found(pieces(flows, "leaf-b", 5 * MS)) == pytest.approx(found(flows), abs=1e-5)

    def test_jitter_shows_the_offset_of_periodic_traffic(self) -> None:
        flows = seen({"spine": 0.2}, at_ms=moments(200.0, 1, jitter=0.01, messages=1))
        assert found(flows)["spine"] == pytest.approx(0.2, abs=1e-5)

    @pytest.mark.parametrize("ahead_s", [0.0, 0.2, -0.3])
    def test_smallest_offset_is_taken_when_exactly_periodic(self, ahead_s: float) -> None:
        assert found(seen({"spine": ahead_s}, at_ms=every(1000, 60)))["spine"] == pytest.approx(ahead_s, abs=1e-5)

    def test_equal_messages_are_not_taken_for_their_neighbours(self) -> None:
        exact = [begin + 20 * message for begin in every(1003, 59) for message in range(16)]
        assert found(seen({"spine": 0.2}, at_ms=exact, loss=0.01))["spine"] == pytest.approx(0.2, abs=1e-5)

    def test_sizes_show_the_offset_when_times_do_not(self) -> None:
        flows = seen({"spine": 0.7}, at_ms=every(500, 120), sizes=(40 * MB, 8 * MB, 20 * MB, 30 * MB))
        assert found(flows)["spine"] == pytest.approx(0.7, abs=1e-5)

    @settings(max_examples=10)
    @given(st.fixed_dictionaries({name: st.floats(-0.004, 0.004) for name in EXPORTERS}), st.sampled_from(EXPORTERS))
    def test_clocks_all_a_little_off_are_set_by_the_median(self, ahead: dict[str, float], bad: str) -> None:
        ahead = ahead | {bad: 0.2}
        middle = float(np.median(list(ahead.values())))
        right = {name: value - middle for name, value in ahead.items()}
        assert found(seen(ahead)) == pytest.approx(right, abs=1e-5)


def pieces(flows: FlowBatch, exporter: str, length_ns: int) -> FlowBatch:
    """The records of one exporter cut into pieces that are at most so long."""
    cut = np.array(flows.exporters)[flows.exporter] == exporter
    count = np.where(cut, -(-(flows.end_ns - flows.start_ns) // length_ns), 1)
    rows = np.repeat(np.arange(len(flows)), count)
    piece = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    whole = flows.take(rows)
    start = whole.start_ns + piece * length_ns
    end = np.where(cut[rows], np.minimum(start + length_ns, whole.end_ns), whole.end_ns)
    made = replace(
        whole, start_ns=start, end_ns=end, bytes=whole.bytes // count[rows], packets=whole.packets // count[rows]
    )
    return made.moved(np.zeros(len(made), np.int64).__getitem__)


class TestWhatIsNotKnown:
    def test_one_exporter_alone_has_no_offset(self) -> None:
        memories = estimate(seen(paths={(0, 1): ("leaf-a",)}), NEW, PARAMS)
        assert memories.exporters == ("leaf-a",)
        assert np.isnan(memories.clock_offset_s).all()
        assert np.isnan(memories.clock_uncertainty_s).all()
        assert memories.clock_matches.tolist() == [0]

    def test_nor_have_exporters_that_share_no_flows(self) -> None:
        alone = {(0, 1): ("leaf-a",), (1, 2): ("leaf-b",)}
        assert np.isnan(list(found(seen(paths=alone)).values())).all()

    def test_nor_those_of_which_too_few_observations_match(self) -> None:
        few = found(seen({"spine": 0.2}, at_ms=moments(900.0, 1)[:5], paths={(0, 1): ("leaf-a", "spine")}))
        assert np.isnan(list(few.values())).all()

    def test_traffic_moved_to_another_path_shows_no_offset(self) -> None:
        at_ms = moments(900.0, 1)
        half = len(at_ms) // 2
        before, after = (
            seen(paths={(0, 1): path}, at_ms=part)
            for path, part in ((("leaf-a", "spine-1"), at_ms[:half]), (("leaf-a", "spine-2"), at_ms[half:]))
        )
        assert found(FlowBatch.concat([before, after])) == pytest.approx(
            {"leaf-a": 0.0, "spine-1": 0.0, "spine-2": 0.0}, abs=1e-6
        )

    def test_times_in_whole_seconds_say_nothing(self) -> None:
        assert np.isnan(list(found(seen({"spine": 0.2}, tick_ns=10**9)).values())).all()

    def test_records_without_an_exporter_are_of_no_clock(self) -> None:
        flows = seen(paths={(0, 1): ("", "leaf-a")})
        assert list(found(flows)) == ["leaf-a"]
        assert np.isnan(found(flows)["leaf-a"])

    def test_unrelated_flows_do_not_match(self) -> None:
        rng = np.random.default_rng(1)
        apart = [
            seen(paths={(0, 1): (name,)}, at_ms=sorted(rng.uniform(0, SPAN_MS, 200))) for name in ("leaf-a", "leaf-b")
        ]
        assert np.isnan(list(found(FlowBatch.concat(apart)).values())).all()

    def test_nothing(self) -> None:
        assert len(estimate(FlowBatch.empty(), NEW, PARAMS)) == 0
        assert len(correct(FlowBatch.empty(), NEW, PARAMS)) == 0


class TestSetsOfExporters:
    APART: Mapping[tuple[int, int], Path] = {(0, 1): ("a", "b", "c"), (2, 3): ("x", "y", "z")}

    def test_each_set_that_shares_flows_has_its_own_time(self) -> None:
        ahead = found(seen({"a": 0.2, "x": 7.0, "y": 7.0, "z": 6.9}, paths=self.APART))
        assert ahead == pytest.approx({"a": 0.2, "b": 0, "c": 0, "x": 0, "y": 0, "z": -0.1}, abs=1e-5)

    def test_of_two_unknown_clocks_the_one_that_sees_more_is_right(self) -> None:
        flows = seen({"b": 0.2}, paths={(0, 1): ("a", "b"), (0, 2): ("a",)})
        assert found(flows) == pytest.approx({"a": 0.0, "b": 0.2}, abs=1e-5)

    def test_of_two_what_was_known_before_is_right(self) -> None:
        before = NEW.followed_by(memories(a=0.2, b=0.0), BEGIN_NS - 60 * 10**9)
        flows = seen({"a": 0.2}, paths={(0, 1): ("a", "b"), (0, 2): ("a",)})
        assert found(flows, before) == pytest.approx({"a": 0.2, "b": 0.0}, abs=1e-5)

    def test_a_mistake_of_before_is_mended_by_the_majority(self) -> None:
        before = NEW.followed_by(memories(b=-0.2), BEGIN_NS - 60 * 10**9)
        flows = seen({"a": 0.2}, paths={(0, 1): ("a", "b", "c", "d")})
        assert found(flows, before) == pytest.approx({"a": 0.2, "b": 0.0, "c": 0.0, "d": 0.0}, abs=1e-5)

    def test_their_order_does_not_matter(self) -> None:
        flows = seen({"leaf-b": 0.2})
        names = tuple(reversed(flows.exporters))
        turned = replace(flows, exporter=len(names) - 1 - flows.exporter, exporters=names)
        assert found(turned) == pytest.approx(found(flows), abs=1e-6)


class TestLanes:
    """Three rails between the same two servers, each seen by an exporter of its own."""

    RAILS: Mapping[tuple[int, int], Path] = {(0, 1): ("a",), (2, 3): ("b",), (4, 5): ("c",)}
    SERVER = np.array([0, 1, 0, 1, 0, 1], np.int32)

    def found(self, flows: FlowBatch, server: Int32 | None = SERVER) -> dict[str, float]:
        return offsets(estimate(flows, NEW, PARAMS, server))

    @pytest.mark.parametrize("ahead_s", [0.2, -0.2, 0.003])
    def test_messages_on_all_rails_at_once_show_their_clocks(self, ahead_s: float) -> None:
        flows = seen({"b": ahead_s}, paths=self.RAILS, at_ms=moments(900.0, 1), loss=0.02, tick_ns=MS)
        assert self.found(flows) == pytest.approx({"a": 0.0, "b": ahead_s, "c": 0.0}, abs=3e-4)
        assert np.isnan(list(self.found(flows, None).values())).all()

    def test_of_rails_that_move_by_themselves_nothing_is_known(self) -> None:
        assert np.isnan(list(self.found(seen({"b": 0.2}, paths=self.RAILS)).values())).all()

    @pytest.mark.sweep
    def test_nor_of_those_so_busy_that_something_always_agrees(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sightings, "_MAX_CANDIDATES", 20_000)
        sizes, rng = range(MB, 17 * MB, MB), np.random.default_rng(1)
        alone = [
            seen(paths={rail: path}, at_ms=np.repeat(rng.uniform(0, SPAN_MS, 10_000), 16).tolist(), sizes=sizes)
            for rail, path in self.RAILS.items()
        ]
        assert np.isnan(list(self.found(FlowBatch.concat(alone)).values())).all()

    def test_nor_of_those_between_different_servers(self) -> None:
        flows = seen({"b": 0.2}, paths=self.RAILS, at_ms=moments(900.0, 1))
        assert np.isnan(list(self.found(flows, np.arange(6, dtype=np.int32)).values())).all()

    def test_steps_that_all_take_equally_long_shift_no_clock_by_one(self) -> None:
        flows = seen(paths=self.RAILS, at_ms=moments(900.0, 1, jitter=0.0), loss=0.02)
        assert np.nan_to_num(list(self.found(flows).values())) == pytest.approx([0, 0, 0], abs=1e-4)

    @pytest.mark.parametrize("ahead_s", [0.2, -0.25])
    def test_few_candidates_set_a_wrong_clock_apart_from_the_period(
        self, ahead_s: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sightings, "_MAX_CANDIDATES", 80_000)
        monkeypatch.setattr(sightings, "_MIN_CANDIDATES", 100)
        rails: dict[tuple[int, int], Path] = {(2 * rail, 2 * rail + 1): (f"rail-{rail}",) for rail in range(8)}
        at_ms = moments(900.0, 1, jitter=0.0005, messages=32)
        flows = seen({"rail-3": ahead_s}, paths=rails, at_ms=at_ms, loss=0.02, tick_ns=MS)
        found = offsets(estimate(flows, NEW, PARAMS, np.tile(np.array([0, 1], np.int32), 8)))
        assert found == pytest.approx({f"rail-{rail}": ahead_s * (rail == 3) for rail in range(8)}, abs=3e-4)

    def test_shared_flows_count_before_lanes(self) -> None:
        shared = seen({"b": 0.2}, paths={(0, 1): ("a", "b"), (0, 2): ("a",)}, at_ms=moments(900.0, 1))
        server = np.array([0, 1, 2], np.int32)
        assert self.found(shared, server) == self.found(shared, None)


def memories(uncertainty_s: float = 1e-6, **offset_s: float) -> ExporterStates:
    """What a window found of exporters."""
    return replace(
        ExporterStates.unknown(tuple(offset_s)),
        clock_offset_s=np.array(list(offset_s.values())),
        clock_uncertainty_s=np.full(len(offset_s), uncertainty_s),
    )


class TestCorrection:
    FLOWS = batch([Flow(0, 1, at, exporter=name) for at in (0, 1000, 2000, 3000) for name in ("a", "b")])

    def ends_ms(self, flows: FlowBatch, exporter: str) -> list[float]:
        rows: Int64 = np.flatnonzero(flows.exporter == flows.exporters.index(exporter))
        ends: list[float] = ((flows.end_ns[rows] - BEGIN_NS) / MS).tolist()
        return ends

    def test_times_are_those_of_right_clocks_and_sorted_by_them(self) -> None:
        right = correct(self.FLOWS, NEW.followed_by(memories(a=0.0, b=1.5), BEGIN_NS), PARAMS)
        assert self.ends_ms(right, "a") == [10, 1010, 2010, 3010]
        assert self.ends_ms(right, "b") == [-1490, -490, 510, 1510]
        assert (np.diff(right.start_ns) >= 0).all()
        assert (right.end_ns - right.start_ns == 10 * MS).all()

    def test_offset_holds_until_the_next_and_the_first_before_it(self) -> None:
        history = NEW.followed_by(memories(b=0.1), BEGIN_NS + 1000 * MS)
        history = history.followed_by(memories(a=0.0), BEGIN_NS + 1500 * MS)
        history = history.followed_by(memories(b=0.3), BEGIN_NS + 2500 * MS)
        assert self.ends_ms(correct(self.FLOWS, history, PARAMS), "b") == [-90, 910, 1910, 2710]

    def test_what_the_uncertainty_may_account_for_is_left_alone(self) -> None:
        history = NEW.followed_by(memories(0.05, a=0.0, b=0.2), BEGIN_NS)
        assert correct(self.FLOWS, history, PARAMS) is self.FLOWS
        assert reach_ns(history, PARAMS) == 0

    def test_what_is_known_of_others_changes_nothing(self) -> None:
        history = NEW.followed_by(memories(z=0.2), BEGIN_NS)
        assert correct(self.FLOWS, history, PARAMS) is self.FLOWS
        assert reach_ns(history, PARAMS) == 200 * MS
        assert reach_ns(NEW, PARAMS) == 0

    def test_right_clocks_stay_as_they_are(self) -> None:
        flows = seen()
        np.testing.assert_array_equal(corrected(flows).end_ns, flows.end_ns)

    @settings(max_examples=10)
    @given(st.sampled_from(EXPORTERS), st.floats(-3, 3), st.integers(-(10**6), 10**6))
    def test_correction_undoes_the_offset_at_any_time(self, bad: str, ahead_s: float, shift_ms: int) -> None:
        flows = seen({bad: ahead_s})
        later = flows.moved(np.full(len(flows), shift_ms * MS).__getitem__)
        ends = np.sort(corrected(later).end_ns) - shift_ms * MS
        np.testing.assert_allclose(ends - BEGIN_NS, np.sort(seen().end_ns) - BEGIN_NS, atol=10_000)


class TestBlur:
    def test_blur_is_the_tick_and_the_way_between_switches(self) -> None:
        assert set(blurs_ns(seen(tick_ns=MS).ticks_ns(), PARAMS)) == {1_100_000}
        assert max(blurs_ns(seen().ticks_ns(), PARAMS)) < 110_000

    def test_but_never_so_badly_that_messages_run_together(self) -> None:
        assert set(blurs_ns(seen(tick_ns=10**9).ticks_ns(), PARAMS)) == {10_100_000}
