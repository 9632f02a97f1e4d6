"""What every struct of arrays in the model has in common: equal lengths, fixed dtypes, read-only columns."""

from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt16 = npt.NDArray[np.uint16]
UInt64 = npt.NDArray[np.uint64]
UInt8 = npt.NDArray[np.uint8]
Float64 = npt.NDArray[np.float64]
Complex128 = npt.NDArray[np.complex128]
Bool = npt.NDArray[np.bool_]


def freeze(owner: object, **dtypes: npt.DTypeLike) -> None:
    """Cast the named fields of a frozen dataclass to read-only 1-d columns of equal length.

    Parameters: `owner`, the instance under construction; `dtypes`, the field names and their dtypes.
    Raises ValueError where a column is not one-dimensional or the lengths differ.
    """
    length: int | None = None
    for name, dtype in dtypes.items():
        column: npt.NDArray[Any] = np.ascontiguousarray(getattr(owner, name), dtype=dtype)
        if column.ndim != 1:
            raise ValueError(f"{type(owner).__name__}.{name} must be one-dimensional, not {column.ndim}-dimensional")
        if length is not None and len(column) != length:
            raise ValueError(
                f"{type(owner).__name__}.{name} has {len(column)} rows where its first column has {length}"
            )
        length = len(column)
        column = column.view()
        column.flags.writeable = False
        object.__setattr__(owner, name, column)
