"""What moves beside a job tells a short pause from slowness where all computing is one rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.background import unusual_beside, with_storage
from prism_ch.analysis.diagnose.stops.rests import find_rests
from prism_ch.model.columns import Bool
from prism_ch.model.params import StopParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, batch, every, ring, topology, traffic, typed

PARAMS = StopParams()
MEMBERS = np.arange(4, dtype=np.int32)
STORAGE = 5
#: Ten steps of a second, of which the seventh takes two.
ENDS_MS = [*every(1000, 6, 1000), *every(1000, 4, 8000)]


def saved(beside: Sequence[Flow]) -> Bool:
    bursts = traffic(ring(MEMBERS.tolist(), ENDS_MS))
    end_ns = BEGIN_NS + np.array([round(end * MS) for end in ENDS_MS], np.int64)
    rests = find_rests(bursts, typed(bursts), end_ns)
    duration_s = np.append(np.nan, np.diff(end_ns) / 1e9)
    return with_storage(rests, duration_s, batch(beside), MEMBERS, PARAMS)


def test_a_longer_rest_in_which_much_is_saved_is_one_for_storage() -> None:
    assert np.flatnonzero(saved([Flow(rank, STORAGE, 6100, 300) for rank in range(4)])).tolist() == [6]


@pytest.mark.parametrize(
    "beside",
    [
        [],
        [Flow(0, STORAGE, 6100, 300, size=MB // 100)],
        [Flow(0, STORAGE, 3100, 300), Flow(4, STORAGE, 6100, 300)],
        [Flow(STORAGE, rank, at, 100) for rank in range(4) for at in every(1000, 11, 100)],
    ],
    ids=["nothing", "a stray", "at another time or of others", "as much as ever"],
)
def test_a_longer_rest_with_no_more_beside_it_than_usual_is_not(beside: Sequence[Flow]) -> None:
    assert not saved(beside).any()


def test_those_with_the_most_are_named() -> None:
    flows = batch([Flow(0, 4, 500, 100, size=MB), Flow(1, 5, 500, 100, size=9 * MB)])
    span = BEGIN_NS + 400 * MS, BEGIN_NS + 900 * MS
    assert list(unusual_beside(flows, MEMBERS, span, topology(6), PARAMS)) == ["10.0.105.0", "10.0.104.0"]
