"""Prints sql/functions.txt, the functions a statement may call: `python -m tools.function_dump`."""

from __future__ import annotations

import sys
import tempfile

from prism_ch.store.client import Store, connect
from prism_ch.store.statements import statement

#: Families of ClickHouse's functions, as its own documentation groups them, that compute from their arguments alone.
PURE_CATEGORIES = frozenset({
    "Aggregate Functions", "Arithmetic", "Arrays", "Bit", "Bitmap", "Comparison", "Conditional", "Dates and Times",
    "Distance", "Encoding", "Financial", "Geo", "Geo Polygon", "Hash", "IP Address", "JSON", "Logical", "Map",
    "Mathematical", "Null", "NumericIndexedVector", "QBit", "Random Number", "Rounding", "String",
    "String Replacement", "String Search", "String Splitting", "Time Window", "Tuple", "Type Conversion", "URL", "UUID",
})  # fmt: skip

_PURE_TEXT = """
    MACNumToString MACStringToNum MACStringToOUI bar byteSize colorOKLABToSRGB colorOKLCHToSRGB colorSRGBToOKLAB
    caseWithExpression colorSRGBToOKLCH countDigits currentDatabase currentUser defaultValueOfArgumentType
    defaultValueOfTypeName
    digits errorCodeToName finalizeAggregation formatReadableDecimalSize formatReadableQuantity formatReadableSize
    formatReadableTimeDelta getSizeOfEnumType getSubcolumn identity ignore initializeAggregation isConstant
    isDecimalOverflow
    lowCardinalityIndices lowCardinalityKeys materialize minSampleSizeContinuous minSampleSizeConversion
    parseISO8601Duration parseReadableSize parseReadableSizeOrNull parseReadableSizeOrZero parseTimeDelta
    seriesDecomposeSTL seriesOutliersDetectTukey seriesPeriodDetectFFT toColumnTypeName toTypeName transform
    variantElement variantType version visibleWidth
"""
#: Harmless ones of the families that also hold others.
PURE = frozenset(_PURE_TEXT.split())

_IMPURE_TEXT = """
    aggThrow chdb formatRow formatRowNoNewline generateSerialID generateSnowflakeID in notIn globalIn globalNotIn nullIn
    nowInBlock nowInBlock64
    notNullIn globalNullIn globalNotNullIn inIgnoreSet notInIgnoreSet globalInIgnoreSet globalNotInIgnoreSet
    nullInIgnoreSet notNullInIgnoreSet globalNullInIgnoreSet globalNotNullInIgnoreSet
"""
#: Those of the families above that do more: read a table, call a service, fail on purpose, or reveal the machine.
IMPURE = frozenset(_IMPURE_TEXT.split())


def dump_functions(store: Store) -> str:
    """List the functions of an engine, with `!` in front of refused ones.

    An alias goes with what it stands for. What a later engine adds is in neither list, and so is refused too.
    """
    known = store.rows(statement("engine_functions"))
    family = {name: categories for name, _, categories in known}
    lines = []
    for name, alias_to, _ in known:
        real = alias_to or name
        pure = real in PURE or (family.get(real) in PURE_CATEGORIES and real not in IMPURE)
        lines.append((name.lower(), f"{name}\n" if pure and name not in IMPURE else f"!{name}\n"))
    return "".join(line for _, line in sorted(lines))


def main() -> None:
    """Print the list for the engine that is installed."""
    with (
        tempfile.TemporaryDirectory(prefix="prism-ch-") as folder,
        connect(f"chdb://{folder}?database=default") as store,
    ):
        sys.stdout.write(dump_functions(store))


if __name__ == "__main__":
    main()
