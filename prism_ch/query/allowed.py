"""The functions, words, system tables, settings and formats that a statement may hold; all others are refused."""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType

from prism_ch.assets import asset

#: Table functions that make rows out of their arguments alone.
TABLE_FUNCTIONS = frozenset({
    "generate_series", "generateseries", "numbers", "numbers_mt", "sqlstandardvalues", "values", "zeros", "zeros_mt",
})  # fmt: skip

_SPAN = "from_time = '2000-01-01 00:00:00', to_time = '2000-01-01 00:00:00'"
#: Views of the database that take parameters, and so look like table functions; each with values for which it is empty.
PARAMETERISED_VIEWS = MappingProxyType({
    "gpu_time": _SPAN,
    "pair_traffic": f"{_SPAN}, points = 1", "switch_traffic": f"{_SPAN}, points = 1",
})  # fmt: skip

#: Tables of ClickHouse's own that an operator may read: never users, secrets, logs or other users' statements.
SYSTEM_TABLES = frozenset({
    "aggregate_function_combinators", "build_options", "collations", "columns",
    "data_skipping_indices", "data_type_families", "databases", "detached_parts", "disks", "errors", "events",
    "formats", "functions", "keywords", "merges", "metrics", "mutations", "numbers", "numbers_mt", "one", "parts",
    "parts_columns", "projection_parts", "projections", "replicas", "settings", "table_engines", "table_functions",
    "tables", "time_zones", "view_refreshes", "zeros",
})  # fmt: skip
INFORMATION_TABLES = frozenset(
    {"columns", "key_column_usage", "referential_constraints", "schemata", "statistics", "tables", "views"}
)

#: What may follow SHOW.
SHOWABLE = frozenset({"COLUMNS", "CREATE", "DATABASES", "FUNCTIONS", "INDEXES", "SETTINGS", "TABLES"})

_SWITCHES = """
    any_join_distinct_right_table_keys asterisk_include_alias_columns asterisk_include_materialized_columns
    cast_keep_nullable empty_result_for_aggregation_by_empty_set extremes group_by_use_nulls join_use_nulls
    output_format_arrow_low_cardinality_as_dictionary output_format_arrow_string_as_string
    output_format_csv_crlf_end_of_line output_format_decimal_trailing_zeros output_format_json_array_of_rows
    output_format_json_escape_forward_slashes output_format_json_named_tuples_as_objects
    output_format_json_quote_64bit_floats output_format_json_quote_64bit_integers
    output_format_json_quote_decimals output_format_json_quote_denormals output_format_json_validate_utf8
    output_format_native_encode_types_in_binary_format output_format_native_write_json_as_string
    output_format_parquet_string_as_string output_format_write_statistics prefer_column_name_to_alias transform_null_in
"""
_COUNTS = """
    limit max_block_size max_memory_usage max_result_bytes max_result_rows max_rows_to_read max_threads offset
    output_format_pretty_max_rows output_format_pretty_max_value_width preferred_block_size_bytes
"""

#: Settings that a statement may change, each with its allowed values: how results look, never what can be reached. None
#: of them names a file; limits among them can only be lowered.
SETTABLE = MappingProxyType({
    **dict.fromkeys(_SWITCHES.split(), re.compile(r"[01]|true|false", re.IGNORECASE)),
    **dict.fromkeys(_COUNTS.split(), re.compile(r"[0-9]{1,12}")),
    "date_time_input_format": re.compile(r"basic|best_effort|best_effort_us"),
    "date_time_output_format": re.compile(r"simple|iso|unix_timestamp"),
    "max_execution_time": re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?"),
    "output_format_arrow_compression_method": re.compile(r"lz4_frame|zstd|none"),
    "output_format_parquet_compression_method": re.compile(r"snappy|lz4|zstd|gzip|none"),
    "session_timezone": re.compile(r"[A-Za-z]{1,20}([/_+-][A-Za-z0-9_+-]{1,30}){0,3}"),
})  # fmt: skip

#: Formats of a result; those that read a schema or a template from a file are not among them, nor is XML: the engine
#: ends, and all that it serves, where it is to write the extremes of texts.
FORMATS = frozenset({
    "Arrow", "ArrowStream", "CSV", "CSVWithNames", "CSVWithNamesAndTypes", "JSON", "JSONColumns",
    "JSONColumnsWithMetadata", "JSONCompact", "JSONCompactColumns", "JSONCompactEachRow",
    "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes", "JSONCompactEachRowWithProgress",
    "JSONCompactStrings", "JSONCompactStringsEachRow", "JSONCompactStringsEachRowWithNames",
    "JSONCompactStringsEachRowWithNamesAndTypes", "JSONEachRow", "JSONEachRowWithProgress", "JSONLines",
    "JSONObjectEachRow", "JSONStrings", "JSONStringsEachRow", "Markdown", "Native", "NDJSON", "Null", "Parquet",
    "Pretty", "PrettyCompact", "PrettyCompactMonoBlock", "PrettyCompactNoEscapes", "PrettyMonoBlock", "PrettyNoEscapes",
    "PrettySpace", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "TSV", "TSVRaw", "TSVWithNames",
    "TSVWithNamesAndTypes", "TabSeparated", "TabSeparatedRaw", "TabSeparatedWithNames",
    "TabSeparatedWithNamesAndTypes", "Values", "Vertical",
})  # fmt: skip

_WORDS_TEXT = """
    all and any array as between by case columns cube desc describe distinct div else
    except exists extract filter from global group
    grouping having ilike in intersect interval is join like limit mod not offset on or order over partition prewhere
    qualify replace rollup select sets step table then to top union untuple using values when where window with
    apply interpolate strict
    cast date_add date_sub dateadd datesub ltrim overlay position rtrim substring timestamp_add timestamp_sub
    timestampadd timestampsub trim
    aggregatefunction char datetime datetime32 datetime64 decimal decimal128 decimal256 decimal32 decimal64 dynamic enum
    enum16 enum8 fixedstring json lowcardinality map nested nullable numeric qbit simpleaggregatefunction time64 tuple
    varchar variant
"""
# Words before a bracket that are no functions: words of the grammar, types, and what the parser turns into functions.
_WORDS = frozenset(_WORDS_TEXT.split())

# What may be put behind the name of an aggregate function, several of them too.
_COMBINATOR = re.compile(
    r"(if|array|map|simplestate|state|merge|mergestate|foreach|distinct|ordefault|ornull|resample|argmin|argmax|null|tuple)$"
)


@cache
def _functions() -> tuple[frozenset[str], frozenset[str]]:
    """Read the names of allowed and refused functions, in small letters."""
    names = asset("sql/functions.txt").read_text(encoding="utf-8").lower().split()
    refused = frozenset(name[1:] for name in names if name.startswith("!"))
    return frozenset(name for name in names if not name.startswith("!")) - refused, refused


def may_be_called(name: str, *, as_word: bool = True) -> bool:
    """Check whether a name before a bracket is harmless. `as_word` is false for a quoted name."""
    name = name.lower()
    functions, _ = _functions()
    if name in functions or name in TABLE_FUNCTIONS or (as_word and _is_grammar(name)):
        return True
    shorter = _COMBINATOR.sub("", name)
    return shorter != name and may_be_called(shorter, as_word=False)


def is_refused_function(name: str, *, as_word: bool = True) -> bool:
    """Check whether a name without bracket is that of a refused function of ClickHouse.

    `revision` is the column that most stored tables have; the function of that name returns the engine's version.
    """
    refused = name.lower() in _functions()[1] and name != "revision"
    return refused and not (as_word and _is_grammar(name.lower()))


def _is_grammar(name: str) -> bool:
    """Check whether all words of a token, such as ORDER BY, belong to the grammar."""
    return bool(name) and all(part in _WORDS for part in name.split())
