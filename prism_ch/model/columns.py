"""What every struct of arrays has in common: equal lengths, fixed dtypes, read-only columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt16 = npt.NDArray[np.uint16]
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
UInt8 = npt.NDArray[np.uint8]
Float64 = npt.NDArray[np.float64]
Complex128 = npt.NDArray[np.complex128]
Bool = npt.NDArray[np.bool_]

#: A tuple of numbers in each row: see `ragged`.
Ragged = npt.NDArray[np.object_]

#: The dtype of a field by its annotation.
_DTYPES: dict[str, npt.DTypeLike] = {
    "Int64": np.int64,
    "Int32": np.int32,
    "UInt16": np.uint16,
    "UInt32": np.uint32,
    "UInt8": np.uint8,
    "Float64": np.float64,
    "Ragged": np.object_,
}

#: The columns of each dataclass, found once: structs are made by the thousand.
_COLUMNS: dict[type[Any], dict[str, npt.DTypeLike]] = {}


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Make a column of a tuple of numbers in each row."""
    items = [tuple(row) for row in rows]
    column = np.empty(len(items), dtype=np.object_)
    for place, item in enumerate(items):  # numpy would make equally long tuples a second dimension
        column[place] = item
    return column


def freeze(owner: object, **dtypes: npt.DTypeLike) -> None:
    """Cast the named fields of a frozen dataclass to read-only 1-d columns of equal length.

    Parameters: `owner`, the instance under construction; `dtypes`, the field names and their dtypes.
    Raises ValueError where a column is not one-dimensional or the lengths differ.
    """
    length: int | None = None
    for name, dtype in dtypes.items():
        given = getattr(owner, name)
        column: npt.NDArray[Any] = np.ascontiguousarray(given, dtype=dtype)
        if column.ndim != 1:
            raise ValueError(f"{type(owner).__name__}.{name} must be one-dimensional, not {column.ndim}-dimensional")
        if length is not None and len(column) != length:
            raise ValueError(
                f"{type(owner).__name__}.{name} has {len(column)} rows where its first column has {length}"
            )
        length = len(column)
        if column is given and not column.flags.writeable:
            continue  # frozen by another struct
        column = column.view()
        column.flags.writeable = False
        object.__setattr__(owner, name, column)


class Columns:
    """A dataclass whose fields annotated as arrays are columns of equal length, one row a thing."""

    __slots__ = ()

    def __post_init__(self) -> None:
        freeze(self, **_columns(type(self)))

    def __len__(self) -> int:
        return len(getattr(self, next(iter(_columns(type(self))))))

    def take(self, rows: Bool | Int64) -> Self:
        """Return the rows of a mask or an index, in that order."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)
        columns = {name: getattr(self, name)[rows] for name in _columns(type(self))}
        return replace(self, **columns)  # type: ignore[type-var]

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one after the other."""
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in _columns(cls)})

    @classmethod
    def empty(cls) -> Self:
        """Return the struct without rows."""
        return cls(**{name: np.empty(0, dtype=dtype) for name, dtype in _columns(cls).items()})


def _columns(struct: type[Any]) -> dict[str, npt.DTypeLike]:
    """Return the dtypes of a dataclass's columns by their names."""
    found = _COLUMNS.get(struct)
    if found is None:
        found = {field.name: _DTYPES[str(field.type)] for field in fields(struct) if field.type in _DTYPES}
        _COLUMNS[struct] = found
    return found
