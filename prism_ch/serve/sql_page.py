"""Answers the SQL box: a result as a table, or as a CSV file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from prism_ch.errors import UsageError
from prism_ch.query.answer import page as page_settings
from prism_ch.query.tenancy import listed_views
from prism_ch.report.page import render
from prism_ch.serve.exchange import Exchange
from prism_ch.serve.page_ask import PageAsk
from prism_ch.serve.permission import public_error
from prism_ch.serve.request import RequestError, first_word, without_format
from prism_ch.serve.results import LONG
from prism_ch.serve.sql import SqlEndpoint
from prism_ch.serve.views import Reader
from prism_ch.store.handle import EngineError

#: Rows that a table shows; CSV has them all.
ROWS_SHOWN = 1000
_FORMAT = "JSONCompactStringsEachRowWithNamesAndTypes"
#: How ClickHouse writes NULL among strings.
_NULL = "ᴺᵁᴸᴸ"


@dataclass(frozen=True, slots=True)
class Table:
    """A result to show: names and types of its columns, and rows; None is NULL. `is_cut` if there are more."""

    names: list[str]
    types: list[str]
    rows: list[list[str | None]]
    is_cut: bool


def view_answer(ask: PageAsk, reader: Reader, given: Mapping[str, str], posted: Mapping[str, str] | None) -> str:
    """Make the page with the box, and with a statement's result.

    Parameters: `given`, of the address: `statement` is put into the box and not run; `posted`, of the form, None if the
    page is only opened.
    """
    text = (given if posted is None else posted).get("statement", "")
    table, wrong = None, ""
    if posted is not None:
        try:
            table = _table(ask, text)
        except (RequestError, UsageError) as error:
            wrong = str(error)
        except EngineError as error:
            wrong = str(public_error(error, ask.user))
    tables = ask("list_tables", listed=sorted(listed_views()))
    return render("page_sql.html", reader=reader, path="/sql", statement=text, table=table, wrong=wrong, tables=tables)


async def answer_csv(
    endpoint: SqlEndpoint, ask: PageAsk, exchange: Exchange, text: str, headers: Mapping[str, str]
) -> None:
    """Send a statement's result as a CSV file, as it comes.

    Raises RequestError, EngineError if it fails before the first byte; if it fails later, the file gets no end.
    """
    statement, settings = await ask.permit(_without_format(text), "CSVWithNames", {}, {})
    start = {**headers, "Content-Disposition": 'attachment; filename="prism-ch.csv"'}
    async with endpoint.handles.for_reading(endpoint.database, settings) as handle:
        if first_word(statement.text) not in LONG:
            data = await endpoint.engine.run(lambda: handle.run(statement.text, statement.format))
            await exchange.start(200, start, compress=True, size=len(data))
            await exchange.end(data)
            return
        async with endpoint.engine.result(handle, statement) as result:
            data, whole = await result.beginning()
            if whole:
                await result.cost()
            await exchange.start(200, start, compress=True)
            while data:
                await exchange.send(data)
                data = await result.piece()
            try:
                await result.cost()
            except EngineError:
                await exchange.end(complete=False)
            else:
                await exchange.end()


def _table(ask: PageAsk, text: str) -> Table:
    # One row more tells whether there are more.
    settings = page_settings(ROWS_SHOWN + 1) if first_word(text) in LONG else {}
    body = ask.run(_without_format(text), _FORMAT, {}, settings).decode(errors="replace")
    lines = [json.loads(line) for line in body.split("\n") if line]
    names, types, *rows = lines or [[], []]
    shown = [[None if value == _NULL else value for value in row] for row in rows[:ROWS_SHOWN]]
    return Table(names, types, shown, len(rows) > ROWS_SHOWN)


def _without_format(text: str) -> str:
    if not text.strip():
        raise RequestError("SYNTAX_ERROR", "There is no statement; write one, or take one of the examples")
    body, result_format, _ = without_format(text)
    if result_format:
        raise RequestError("BAD_ARGUMENTS", "Leave out FORMAT; the two buttons choose it")
    return body
