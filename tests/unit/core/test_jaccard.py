"""Similarity of sets: equal to Python's own sets, for columns and sparse matrices alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prism_ch.core.arrays import Float64, Int32
from prism_ch.core.jaccard import jaccard_matrix, overlap_matrix
from tests import naive

families = st.lists(st.sets(st.integers(0, 8), max_size=6), min_size=1, max_size=6)


def sparse(family: list[set[int]]) -> csr_array[np.float64, tuple[int, int]]:
    dense: Float64 = np.zeros((len(family), 9))
    for i, items in enumerate(family):
        dense[i, sorted(items)] = 7.0  # any weight but 0 means that the item is there
    return csr_array(dense)


def columns(family: list[set[int]], repeat: int = 1) -> tuple[Int32, Int32]:
    rows = [(i, item) for i, items in enumerate(family) for item in items] * repeat
    set_id, item_id = np.array(rows, dtype=np.int32).reshape(-1, 2).T
    return set_id, item_id


@given(families, families)
def test_equals_pythons_sets(one: list[set[int]], two: list[set[int]]) -> None:
    np.testing.assert_allclose(jaccard_matrix(sparse(one)), [[naive.jaccard(a, b) for b in one] for a in one])
    np.testing.assert_allclose(overlap_matrix(sparse(one)), [[naive.overlap(a, b) for b in one] for a in one])
    np.testing.assert_allclose(
        jaccard_matrix(sparse(one), sparse(two)), [[naive.jaccard(a, b) for b in two] for a in one]
    )
    np.testing.assert_allclose(
        overlap_matrix(sparse(one), sparse(two)), [[naive.overlap(a, b) for b in two] for a in one]
    )


@given(families, families)
def test_columns_mean_the_same_and_repeats_nothing(one: list[set[int]], two: list[set[int]]) -> None:
    one, two = [*one, {0}], [*two, {0}]  # as columns there are sets up to the last that is not empty
    expected = jaccard_matrix(sparse(one), sparse(two))
    np.testing.assert_array_equal(jaccard_matrix(columns(one), columns(two, repeat=3)), expected)
    np.testing.assert_array_equal(jaccard_matrix(columns(one), sparse(two)), expected)


def test_no_sets() -> None:
    nothing = np.empty(0, dtype=np.int32)
    assert jaccard_matrix((nothing, nothing)).shape == (0, 0)
    assert overlap_matrix((nothing, nothing), columns([{1}, {2}])).shape == (0, 2)


def test_refuses_negative_ids_and_unequal_columns() -> None:
    with pytest.raises(ValueError, match="an id is negative"):
        jaccard_matrix((np.array([0], dtype=np.int32), np.array([-1], dtype=np.int32)))
    with pytest.raises(ValueError, match="item_id has 2 rows"):
        overlap_matrix((np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int32)))
