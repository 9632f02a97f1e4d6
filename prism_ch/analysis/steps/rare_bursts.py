"""Bursts of a sequence that no other of their step is like: before a rare silence, or of a rare size.

They show where steps end where bursts run together, as on a network that is the bottleneck, and sizes have no period.
"""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import robust
from prism_ch.core.arrays import run_starts
from prism_ch.model.columns import Bool
from prism_ch.model.params import DivideParams


def before_rare_silences(sequences: Sequences, params: DivideParams) -> list[Bool]:
    """Mask the bursts of each sequence before silences that are longest, bool[n] each.

    These are as many as leave the widest gap to the next shorter one, and again of these; two may be strays.
    """
    parts = [sequences.rows(line) for line in range(len(sequences))]
    longest = [np.argsort(-sequences.gap_s[rows][:-1], kind="stable") for rows in parts]
    masks: list[Bool] = []
    while True:
        mask = np.zeros(len(sequences.line), dtype=np.bool_)
        for part, rows in enumerate(parts):
            silence = sequences.gap_s[rows.start + longest[part]][: len(longest[part]) // 2 + 1]
            shrinks = -np.diff(np.log(silence))[params.repeats - 1 :]
            longest[part] = longest[part][: params.repeats + int(np.argmax(shrinks)) if len(shrinks) else 0]
            mask[rows.start + longest[part]] = True
        if not mask.any():
            return masks
        masks.append(mask)


def of_rare_size(sequences: Sequences, params: DivideParams) -> Bool:
    """Mask the bursts of one size of each sequence, bool[n].

    It is the size between whose bursts most payload moves in equal parts.
    """
    size = robust.size_classes(sequences.payload, params.size_spread / 2, sequences.line)
    order = np.argsort(size, kind="stable")
    same = np.diff(size[order]) == 0
    of_size, moved = size[order][1:][same], np.diff(np.cumsum(sequences.payload)[order])[same]
    sizes = int(size.max()) + 1
    alike = np.abs(moved / robust.median_by(of_size, moved, sizes)[of_size] - 1) <= params.size_spread / 2
    regularly = np.bincount(of_size[alike], moved[alike], sizes)
    line = np.zeros(sizes, dtype=np.int32)
    line[size] = sequences.line
    best = np.lexsort((-regularly, line))[run_starts(np.sort(line))]
    return np.isin(size, best)
