"""Structs of arrays: equal lengths, the dtypes they promise, and nobody writes into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from prism_ch.model.columns import freeze
from prism_ch.model.job import GroupSet, PairKinds, RecognisedJob
from prism_ch.model.result import DP, PP, GpuSteps, Members, Pairs, Steps, Timeline
from tests.unit.analysis.build import MB, Flow, steps_of, traffic

STRUCTS = (Members, Pairs, Steps, GpuSteps, Timeline)


class Owner:
    """Something with columns."""

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(columns)


class TestFreeze:
    def test_columns_get_their_dtype_and_are_read_only(self) -> None:
        owner = Owner(a=[1, 2], b=[0.5, 1.5])
        freeze(owner, a=np.int32, b=np.float64)
        assert (owner.__dict__["a"].dtype, owner.__dict__["b"].dtype) == (np.int32, np.float64)
        with pytest.raises(ValueError, match="read-only"):
            owner.__dict__["a"][0] = 5

    def test_the_caller_keeps_an_array_to_write_into(self) -> None:
        mine = np.array([1, 2], np.int64)
        freeze(Owner(a=mine), a=np.int64)
        mine[0] = 5
        assert mine.tolist() == [5, 2]

    def test_unequal_lengths_and_shapes_are_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match=r"Owner\.b has 3 rows where its first column has 2"):
            freeze(Owner(a=[1, 2], b=[1, 2, 3]), a=np.int64, b=np.int64)
        with pytest.raises(ValueError, match=r"Owner\.a must be one-dimensional, not 2-dimensional"):
            freeze(Owner(a=[[1, 2]]), a=np.int64)


class TestResults:
    @pytest.mark.parametrize("struct", STRUCTS)
    def test_empty_has_the_columns_and_no_rows(self, struct: type[Steps]) -> None:
        nothing = struct.empty()
        assert len(nothing) == 0
        assert all(not getattr(nothing, field.name).flags.writeable for field in fields(struct))

    def test_rows_are_taken_by_mask_and_by_index(self) -> None:
        steps = steps_of([1.0, 2.0, 3.0])
        assert steps.take(steps.duration_s > 1.5).step.tolist() == [1, 2]
        assert steps.take(np.array([2, 0])).step.tolist() == [2, 0]

    def test_parts_are_joined_in_order(self) -> None:
        steps = steps_of([1.0, 2.0, 3.0])
        joined = Steps.concat([steps.take(steps.step == 2), steps.take(steps.step < 2)])
        assert joined.step.tolist() == [2, 0, 1]
        assert joined.complete.dtype == np.uint8

    def test_durations_are_seconds(self) -> None:
        assert steps_of([1.0, 0.25]).duration_s.tolist() == [1.0, 0.25]
        gpu = GpuSteps(*(np.array([value]) for value in (0, 0, 0, 1_500_000_000, 0, 0, 0, 1)))
        assert gpu.duration_s.tolist() == [1.5]


class TestSets:
    def test_the_members_of_a_job_are_its_own(self) -> None:
        mine = np.array([1, 2], np.int32)
        job = RecognisedJob("job", "acme", mine, known=False)
        mine[0] = 7
        assert job.endpoints.tolist() == [1, 2]
        with pytest.raises(ValueError, match="read-only"):
            job.endpoints[0] = 7

    def test_a_group_set_has_a_row_a_member(self) -> None:
        with pytest.raises(ValueError, match="dp_group has 1 rows"):
            GroupSet(np.zeros(2, np.int32), np.zeros(1, np.int32), np.zeros(2, np.int32), ())

    def kinds(self, pairs: Sequence[int], bursts: Sequence[int]) -> PairKinds:
        return PairKinds(np.array(pairs, np.uint8), np.ones(len(pairs)), np.array(bursts, np.uint8))

    def test_bursts_of_one_kind_come_with_their_pairs(self) -> None:
        # The first pair carries both kinds, the second only one.
        seen = traffic([Flow(0, 1, 0), Flow(0, 1, 100, size=MB), Flow(1, 2, 50)])
        kinds = self.kinds([DP, PP], [DP, PP, PP])
        pipeline = kinds.of_kind(seen, PP)
        assert (pipeline.src.tolist(), pipeline.payload.tolist()) == ([0, 1], [MB, 40 * MB])
        collective = kinds.of_kind(seen, DP)
        assert (collective.pair_src.tolist(), len(collective)) == ([0], 1)

    def test_gradients_close_steps_and_pipelines_without_them(self) -> None:
        assert self.kinds([DP, PP], [DP, PP]).closing == DP
        assert self.kinds([PP], [PP]).closing == PP
