"""Rounds that begin on the results of others."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.replay.barriers import Following, draft_following
from prism_ch.analysis.replay.draft import Draft
from prism_ch.analysis.replay.ready import Seen


def test_a_round_that_seems_to_begin_too_soon_waits_for_its_own() -> None:
    """It begins 4 ns before the round that it follows has ended, by records."""
    draft = Draft(2)
    done, nodes = (draft.nodes(np.array([at], dtype=np.float64)) for at in ([5, 15], [1, 11]))
    seen = Seen(np.array([[1.0, 11.0]]), np.zeros((1, 2), np.bool_), None, 0.1, np.empty((2, 0), np.int64))
    draft_following(draft, [Following(nodes, np.array([0]), done, np.array([5.0, 15.0]), 1, seen)])
    assert draft.lags().tolist() == [[-4.0, -4.0]]
