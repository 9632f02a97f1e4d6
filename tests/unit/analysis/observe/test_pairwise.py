"""Observations compared two by two: as one by one with Python's numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.observe.pairwise import compare_times

COUNTS = st.integers(0, 40) | st.integers(2**32 - 40, 2**32 - 1)


@given(
    st.lists(st.tuples(st.integers(0, 10**18), st.integers(0, 10**9), COUNTS, COUNTS), min_size=1, max_size=8),
    st.data(),
)
def test_pairs_are_compared_as_one_by_one(seen: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    place = st.integers(0, len(seen) - 1)
    row = np.array(data.draw(st.permutations(range(len(seen)))))
    asked = data.draw(st.lists(st.tuples(place, place, place), max_size=5))
    before, begin, count = (np.array([one[key] for one in asked], dtype=np.int64) for key in range(3))
    count = np.minimum(count, len(seen) - begin)
    start_ns, length_ns, octets, packets = (np.array([one[key] for one in seen], dtype=np.int64) for key in range(4))
    total = int(count.sum())
    apart_ns, weight = np.empty(2 * total, dtype=np.int64), np.empty(2 * total)
    compare_times(
        *(row, before, begin, count, start_ns, start_ns + length_ns, octets, packets.astype(np.uint32)),
        *(0.1, 0.25, apart_ns, weight),
    )
    pairs = [
        (seen[row[one]], seen[row[other]])
        for one, first, others in zip(before, begin, count, strict=True)
        for other in range(first, first + others)
    ]
    starts = [other[0] - one[0] for one, other in pairs]
    ends = [other[0] + other[1] - one[0] - one[1] for one, other in pairs]
    weights = [
        1.0 if any(abs(one[key] - other[key]) <= 0.1 * max(one[key], other[key]) for key in (2, 3)) else 0.25
        for one, other in pairs
    ]
    assert apart_ns.tolist() == starts + ends
    assert weight.tolist() == weights * 2
