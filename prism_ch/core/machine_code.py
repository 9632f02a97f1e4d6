"""Functions compiled to machine code by numba, and the bits of numbers, which numba does not give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


#: Columns and tables of arguments, which may be read-only, and those that a function fills.
INT32_COLUMN, INT64_COLUMN, UINT32_COLUMN, FLOAT64_COLUMN = (
    numba.types.Array(kind, 1, "C", readonly=True) for kind in (numba.int32, numba.int64, numba.uint32, numba.float64)
)
FLOAT64_TABLE = numba.types.Array(numba.float64, 2, "C", readonly=True)
NEW_INT32_COLUMN, NEW_INT64_COLUMN, NEW_FLOAT64_COLUMN = (
    numba.types.Array(kind, 1, "C") for kind in (numba.int32, numba.int64, numba.float64)
)
NEW_FLOAT64_TABLE, NEW_BOOL_TABLE = (numba.types.Array(kind, 2, "C") for kind in (numba.float64, numba.boolean))
INT64, FLOAT64 = numba.int64, numba.float64


def compiled(function: Function) -> Function:
    """Compile a function at its first call, and keep the code on disk.

    There is no folder for it where neither the package's folder, the user's cache folder nor NUMBA_CACHE_DIR can be
    written: then each process compiles for itself. Sums may be formed in any order, and nothing may be infinite or NaN.
    Arrays are handed on without counting references to them, which would take most of the time; so none may be made.
    Other threads run meanwhile.
    """
    return _compiled(function)


def compiled_for(*arguments: numba.types.Type, exact: bool = False) -> Callable[[Function], Function]:
    """Compile a function when it is defined, for arguments of these types alone.

    Else it is as `compiled` does. If it is to be `exact`, it computes as numpy does, to the last digit, and numbers may
    be infinite or NaN.
    """
    return partial(_compiled, signature=arguments, exact=exact)


def _compiled(
    function: Function, signature: tuple[numba.types.Type, ...] | None = None, *, exact: bool = False
) -> Function:
    allowed = False if exact else {"contract", "reassoc", "nsz", "arcp", "ninf", "nnan"}
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": allowed, "nogil": True, "_nrt": False}
    try:
        return cast("Function", numba.njit(signature, cache=True, **options)(function))
    except RuntimeError:  # numba's "no locator available"
        return cast("Function", numba.njit(signature, **options)(function))


def inlined(function: Function) -> Function:
    """Compile a function into each that calls it."""
    return cast("Function", numba.njit(inline="always")(function))


def _cast(source: Any, target: Any, kind: ir.Type) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], kind)

    return target(source), generate


@intrinsic
def _bits_of(_context: Any, _number: Any) -> Any:
    return _cast(numba.float64, numba.int64, ir.IntType(64))


@intrinsic
def _number_of(_context: Any, _bits: Any) -> Any:
    return _cast(numba.int64, numba.float64, ir.DoubleType())


#: The bits of a float64 as an int64, inside compiled functions only.
bits_of = cast("Callable[[float], int]", _bits_of)

#: The float64 of such bits, inside compiled functions only.
number_of = cast("Callable[[int], float]", _number_of)
