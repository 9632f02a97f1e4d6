"""How alike the sets of a family are, all pairs at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.sparse import coo_array, csr_array

from prism_ch.core.arrays import Float64, Int32, check_equal_length

#: Sets as a sparse matrix [sets, items], a stored non-zero where an item is in a set; or as columns (set_id, item_id),
#: int32[n] each, not negative. Being in a set twice is being in it. As columns, there are sets up to the largest id.
Membership: TypeAlias = csr_array | tuple[Int32, Int32]


def jaccard_matrix(membership: Membership, other: Membership | None = None) -> Float64:
    """Return the Jaccard index |A & B| / |A | B| of every pair of sets, in 0..1.

    Parameters: `membership`, k sets; `other`, m sets over the same items (default: the same sets).
    Returns float64[k, m], 0 where both sets are empty, so that having nothing makes nothing alike.
    Raises ValueError on negative ids or columns of unequal length.
    Source: Jaccard, "The Distribution of the Flora in the Alpine Zone", New Phytologist 11, 1912; LLMPrism (arXiv
    2505.00342) merges the parts of a job by it.
    """
    common, size, other_size = _common_items(membership, other)
    union = size[:, None] + other_size[None, :] - common
    return np.divide(common, union, out=np.zeros(common.shape), where=union > 0)


def overlap_matrix(membership: Membership, other: Membership | None = None) -> Float64:
    """Return the overlap coefficient |A & B| / min(|A|, |B|) of every pair of sets: 1 where one contains the other.

    Parameters, result and errors as in `jaccard_matrix`; 0 where a set is empty.
    """
    common, size, other_size = _common_items(membership, other)
    smaller = np.minimum(size[:, None], other_size[None, :])
    return np.divide(common, smaller, out=np.zeros(common.shape), where=smaller > 0)


def _common_items(membership: Membership, other: Membership | None) -> tuple[Float64, Float64, Float64]:
    """Return |A & B| of all pairs, float64[k, m], and how large the sets are, float64[k] and float64[m]."""
    both = (membership, membership if other is None else other)
    items = max(_items(one) for one in both)
    left, right = (_incidence(one, items) for one in both)
    common = (left @ right.T).toarray()
    return common, left.sum(axis=1), right.sum(axis=1)


def _items(membership: Membership) -> int:
    """Count the items that sets may hold."""
    if isinstance(membership, tuple):
        return int(membership[1].max(initial=-1)) + 1
    return membership.shape[1]


def _incidence(membership: Membership, items: int) -> csr_array[np.float64, tuple[int, int]]:
    """Return the sets as a matrix [sets, items] of 0 and 1; floats count exactly up to 2**53."""
    if isinstance(membership, tuple):
        row, column = membership
        if check_equal_length(set_id=row, item_id=column) and min(row.min(), column.min()) < 0:
            raise ValueError("sets and items are numbered from 0; an id is negative")
        sets = int(row.max(initial=-1)) + 1
    else:
        row, column = membership.nonzero()
        sets = membership.shape[0]
    matrix = coo_array((np.ones(len(row)), (row, column)), shape=(sets, items)).tocsr()
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix
