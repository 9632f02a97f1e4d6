"""When units are ready for a round."""

import numpy as np

from prism_ch.analysis.replay.ready import Seen, find_readiness


def test_a_unit_that_waits_for_nothing_is_unknown() -> None:
    at, nobody = np.array([[5.0], [6.0]]), np.zeros((2, 1), dtype=np.bool_)
    seen = Seen(at, nobody, None, 0.0, np.array([[0, 1], [1, 0]]))
    sources = np.array([[[1.0], [-np.inf]]])
    ready = find_readiness(seen, sources, np.ones((1, 2)), np.ones((2, 1)))
    assert ready.at[0].tolist() == [5.0]
    assert np.isnan(ready.at[1]).all()
    assert ready.known.tolist() == [[True], [False]]
