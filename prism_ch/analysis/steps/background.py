"""Beside: where a job's other traffic falls among the closing bursts of its endpoints.

Forward and backward passes come after all of a step's closing traffic. Ranks may wait long for one another amid it, but
where an endpoint sends nothing else before its next closing burst, the step is not over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core.arrays import group_search
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Beside:
    """Bursts of other traffic, once for each sequence whose endpoints they touch.

    `line` int32[m]; `after` int64[m], the closing burst that was last over when one began, or that before the
    sequence's first; `payload` float64[m].
    """

    line: Int32
    after: Int64
    payload: Float64

    def follows(self, sequences: Sequences) -> Float64:
        """Return the payload that begins to move between each closing burst and the next, float64[n]."""
        inside = self.after >= sequences.offsets[self.line]
        moved = np.bincount(self.after[inside], weights=self.payload[inside], minlength=len(sequences.line))
        return moved.astype(np.float64)


def read_beside(sequences: Sequences, line_of_endpoint: Int32, traffic: Traffic) -> Beside:
    """Place bursts among the closing ones; `line_of_endpoint` int32[e] is -1 where an endpoint has no sequence."""
    line = np.concatenate([line_of_endpoint[traffic.src], line_of_endpoint[traffic.dst]])
    touched = line >= 0
    start_ns, payload = np.tile(traffic.start_ns, 2)[touched], np.tile(traffic.payload, 2)[touched]
    after = group_search(sequences.line, sequences.end_ns, line[touched], start_ns) - 1
    return Beside(line[touched], after, payload.astype(np.float64))
