"""Flows as the network carries them, before anyone has looked: columns with their meaning attached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from prism_ch.model.columns import Bool, Int32, Int64, UInt8, freeze
from prism_ch.model.result import CP, DP, EP, OTHER, PP, TP

#: Kinds of traffic: first those of a result's pairs (same codes), then what surrounds training.
STORAGE, MONITOR, SERVING, STARTUP, STRAY = range(OTHER + 1, OTHER + 6)
TRAFFIC_NAMES = {
    DP: "DP", PP: "PP", EP: "EP", CP: "CP", TP: "TP", OTHER: "other",
    STORAGE: "storage", MONITOR: "monitor", SERVING: "serving", STARTUP: "startup", STRAY: "stray",
}  # fmt: skip

#: What a flow says about its step: nothing; it belongs to the reduction that closes it; to the gathering after that.
PLAIN, REDUCES, GATHERS = range(3)


@dataclass(frozen=True, slots=True)
class Transfers:
    """One row a flow. Times are nanoseconds since the epoch, `src` and `dst` rows of the Network.

    `payload_bytes` excludes headers; `kind` is a traffic code, `role` one of PLAIN, REDUCES, GATHERS; `job` is a row
    of the scenario's jobs and `step` the job's step, -1 where there is none; `queue` tells the queue pairs of a pair
    apart.
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
        freeze(
            self,
            start_ns=np.int64,
            end_ns=np.int64,
            src=np.int32,
            dst=np.int32,
            payload_bytes=np.int64,
            kind=np.uint8,
            role=np.uint8,
            job=np.int32,
            step=np.int32,
            queue=np.int32,
        )

    def __len__(self) -> int:
        """Count the flows."""
        return len(self.start_ns)

    def take(self, rows: Bool | Int64) -> Transfers:
        """Return the rows of a mask or an index, in that order."""
        return Transfers(*(getattr(self, f.name)[rows] for f in fields(self)))

    @classmethod
    def empty(cls) -> Transfers:
        """Return no flows."""
        return cls(*(np.empty(0, dtype=np.int64) for _ in fields(cls)))  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: Iterable[Transfers]) -> Transfers:
        """Return the rows of all parts, one after the other."""
        held = [part for part in parts if len(part)]
        if not held:
            return cls.empty()
        return cls(*(np.concatenate([getattr(part, f.name) for part in held]) for f in fields(cls)))


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What the flows of every step have in common, one row a flow; columns as in Transfers."""

    src: Int32
    dst: Int32
    payload_bytes: Int64
    kind: UInt8
    role: UInt8
    queue: Int32

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        freeze(
            self,
            src=np.int32,
            dst=np.int32,
            payload_bytes=np.int64,
            kind=np.uint8,
            role=np.uint8,
            queue=np.int32,
        )

    def __len__(self) -> int:
        """Count the flows of a step."""
        return len(self.src)

    def take(self, rows: Bool | Int64) -> FlowPlan:
        """Return the rows of a mask or an index, in that order."""
        return FlowPlan(*(getattr(self, f.name)[rows] for f in fields(self)))

    @classmethod
    def of(cls, src: Int32, dst: Int32, payload_bytes: Int64, *, kind: int, role: int, queue: Int64) -> FlowPlan:
        """Build a plan of one kind and role; arrays of any one shape are flattened."""
        flat = [np.broadcast_to(column, src.shape).reshape(-1) for column in (src, dst, payload_bytes)]
        kinds, roles = (np.full(src.size, value, dtype=np.uint8) for value in (kind, role))
        queues = np.broadcast_to(queue, src.shape).reshape(-1).astype(np.int32)
        return cls(flat[0].astype(np.int32), flat[1].astype(np.int32), flat[2].astype(np.int64), kinds, roles, queues)

    @classmethod
    def concatenate(cls, parts: Iterable[FlowPlan]) -> FlowPlan:
        """Return the rows of all parts, one after the other."""
        held = list(parts)
        if not held:
            return cls(*(np.empty(0, dtype=np.int64) for _ in fields(cls)))  # type: ignore[arg-type]
        return cls(*(np.concatenate([getattr(part, f.name) for part in held]) for f in fields(cls)))
