"""What the stages pass to one another: traffic, divisions, windows, topologies, parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.model.exporter import ExporterStates, Timeouts
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams, Params
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, division, topology, traffic


class TestTraffic:
    SEEN = traffic([Flow(0, 1, 0), Flow(2, 3, 10), Flow(2, 3, 50), Flow(4, 5, 20)])

    def test_every_burst_has_a_sender_and_a_receiver(self) -> None:
        assert self.SEEN.src.tolist() == [0, 2, 2, 4]
        assert self.SEEN.dst.tolist() == [1, 3, 3, 5]

    def test_rate_is_payload_from_first_moment_to_last(self) -> None:
        assert self.SEEN.span_ns().tolist() == [10 * MS, 50 * MS, 10 * MS]
        rate = [flow_bytes / 0.01 for flow_bytes in (40e6, 80e6 / 5, 40e6)]
        assert self.SEEN.rate_bytes_s().tolist() == pytest.approx(rate)
        nothing = self.SEEN.take(np.zeros(4, dtype=bool))
        assert nothing.span_ns().tolist() == [0, 0, 0]
        assert nothing.rate_bytes_s().tolist() == [0, 0, 0]

    def test_pairs_are_kept_with_their_bursts_and_numbered_anew(self) -> None:
        kept = self.SEEN.keep_pairs(np.array([False, True, True]))
        assert kept.pair.tolist() == [0, 0, 1]
        assert (kept.pair_src.tolist(), kept.pair_dst.tolist()) == ([2, 4], [3, 5])
        assert kept.src.tolist() == [2, 2, 4]

    def test_taken_bursts_keep_the_table_of_idle_pairs(self) -> None:
        late = self.SEEN.take(self.SEEN.start_ns >= BEGIN_NS + 15 * MS)
        assert late.pair_src.tolist() == [0, 2, 4]
        assert late.moving().tolist() == [False, True, True]

    def test_nothing(self) -> None:
        nothing = traffic([])
        assert (len(nothing), len(nothing.moving())) == (0, 0)


class TestDivision:
    def test_the_job_ends_a_step_with_its_last_endpoint(self) -> None:
        found = division([0, 1], [[90, 210], [100, 200]])
        assert ((found.job_end_ns() - BEGIN_NS) // MS).tolist() == [100, 210]
        assert found.steps == 2

    def test_none_has_endpoints_but_no_steps(self) -> None:
        nothing = Division.none(np.array([3, 4], np.int32))
        assert (nothing.steps, nothing.endpoints.tolist(), len(nothing.job_end_ns())) == (0, [3, 4], 0)

    def test_shapes_must_agree(self) -> None:
        with pytest.raises(ValueError, match=r"end_ns has shape \(1, 2\) for 2 endpoints and 2 steps"):
            Division(np.zeros(2, np.int32), np.zeros((1, 2), np.int64), np.ones(2, dtype=bool))

    def test_nobody_writes_into_it(self) -> None:
        found = division([0], [100])
        with pytest.raises(ValueError, match="read-only"):
            found.end_ns[0, 0] = 0


class TestWindow:
    @pytest.mark.parametrize("end_ns", [5, 4])
    def test_a_window_ends_after_it_starts(self, end_ns: int) -> None:
        with pytest.raises(ValueError, match=f"window ends at {end_ns}, which is not after its start 5"):
            Window(5, end_ns)

    def test_windows_are_ordered_by_time(self) -> None:
        assert sorted([Window(60, 120), Window(0, 60)]) == [Window(0, 60), Window(60, 120)]


class TestExporterStates:
    def test_timeouts_are_taken_by_name_and_others_left(self) -> None:
        nothing = np.full(3, np.nan)
        inferred = Timeouts(("", "b", "a"), np.array([1.0, 0.005, np.nan]), nothing, np.array([2.0, 60.0, np.nan]))
        found = ExporterStates.unknown(("a", "b")).closing_after(inferred)
        assert np.isnan(found.idle_timeout_s[0])
        assert found.idle_timeout_s[1] == 0.005
        assert found.active_timeout_s[1] == 60.0
        assert np.isnan(found.clock_offset_s).all()


class TestTopology:
    def test_an_address_finds_its_row(self) -> None:
        where = topology(2, gpus=2)
        assert len(where) == 4
        assert where.endpoints[where.index["10.0.101.1"]] == "10.0.101.1"

    def test_every_endpoint_needs_a_place(self) -> None:
        with pytest.raises(ValueError, match="1 endpoints, but 2 servers"):
            replace(topology(2), endpoints=("10.0.100.0",))


def test_digest_changes_with_any_parameter_only() -> None:
    assert Params().digest() == Params().digest()
    assert Params().digest() != Params(divide=DivideParams(half=0.6)).digest()
    assert 0 <= Params().digest() < 2**64
