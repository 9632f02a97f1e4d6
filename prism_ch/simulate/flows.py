"""Flows as the network carries them, before any exporter: columns with their meaning attached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8, freeze
from prism_ch.model.result import OTHER, PAIR_KINDS

Index = npt.NDArray[np.integer]

#: Kinds of traffic: first those of a result's pairs (same codes), then what is no training.
STORAGE, MONITOR, SERVING, STARTUP, STRAY = range(OTHER + 1, OTHER + 6)
TRAFFIC_NAMES = (*PAIR_KINDS, "storage", "monitor", "serving", "startup", "stray")

#: A flow's role in its step: none; of the reduction that closes it; of the gathering after that.
PLAIN, REDUCES, GATHERS = range(3)


class Rows:
    """Selection and concatenation for dataclasses of columns."""

    __slots__ = ()

    def __len__(self) -> int:
        """Count the rows."""
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def take(self, rows: Bool | Index) -> Self:
        """Return the rows of a mask or an index, in that order."""
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: Iterable[Self]) -> Self:
        """Return the rows of all parts, one after the other; without parts, none."""
        columns = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        held = [[getattr(part, name) for name in columns] for part in parts]
        return cls(*map(np.concatenate, zip(*held, strict=True))) if held else cls(*(np.empty(0) for _ in columns))


@dataclass(frozen=True, slots=True)
class Flows(Rows):
    """One row a flow. Times are nanoseconds since the epoch, `src` and `dst` rows of the Network.

    `payload_bytes` excludes headers; `kind` is a traffic code, `role` one of PLAIN, REDUCES, GATHERS; `job` is a row
    of the scenario's jobs and `step` the job's step, -1 where there is none; `queue` numbers the queue pairs of a pair.
    The flows that every step of a job has are a plan: its times, job and step mean nothing yet.
    """

    start_ns: Int64
    end_ns: Int64
    src: Int32
    dst: Int32
    payload_bytes: Int64
    kind: UInt8
    role: UInt8
    job: Int32
    step: Int32
    queue: Int32

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        wide = dict.fromkeys(("start_ns", "end_ns", "payload_bytes"), np.int64)
        narrow = dict.fromkeys(("src", "dst", "job", "step", "queue"), np.int32)
        freeze(self, **wide, **narrow, kind=np.uint8, role=np.uint8)

    @classmethod
    def of(cls, src: Index, dst: Index, payload_bytes: npt.ArrayLike, **others: npt.ArrayLike) -> Flows:
        """Build flows of one shape, which is flattened; a number holds for all of them."""
        columns: dict[str, Any] = {"start_ns": 0, "end_ns": 0, "role": PLAIN, "job": -1, "step": -1, "queue": 0}
        columns |= {"src": src, "dst": dst, "payload_bytes": payload_bytes, **others}
        return cls(**{name: np.broadcast_to(column, src.shape).reshape(-1) for name, column in columns.items()})


@dataclass(slots=True)
class FlowTimes(Rows):
    """Start, end (seconds since the recording began) and bytes of a plan's flows."""

    start_s: Float64
    end_s: Float64
    payload_bytes: Int64

    def flat(self) -> FlowTimes:
        """Return columns of any shape as one-dimensional ones."""
        return FlowTimes(self.start_s.reshape(-1), self.end_s.reshape(-1), self.payload_bytes.reshape(-1))
