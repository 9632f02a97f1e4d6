"""The command that runs an operator's query: sql."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit, progress
from prism_ch.errors import InputError, UsageError


@click.command(short_help="Answer one reading SQL statement.")
@click.argument("statement", metavar="SELECT")
@click.option(
    "--format",
    "answer_format",
    type=click.Choice(["table", "csv", "json", "arrow", "parquet"]),
    default="table",
    show_default=True,
    help="csv has a header; json is one object a line; arrow is an IPC file.",
)
@click.option("--tenant", metavar="NAME", help="See only this tenant's rows, as it would itself.")
@click.option("--rows", type=click.IntRange(0), help="Give at most so many rows: a page of the result.")
@click.option("--first-row", type=click.IntRange(0), default=0, show_default=True, help="Where the page starts.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of to stdout.")
@shared_options
@pass_session
def sql(
    session: Session,
    statement: str,
    answer_format: str,
    tenant: str | None,
    rows: int | None,
    first_row: int,
    output: Path | None,
) -> None:
    """Answer one reading statement: SELECT, WITH, SHOW, DESCRIBE or EXPLAIN.

    Anything that could write, or read what is not in the database, is refused, and so is what is not known to be
    harmless. `-` reads the statement from stdin. SETTINGS at its end may change how results look and lower limits.
    Ctrl-C ends the statement.

    \b
    Examples:
      prism-ch sql "SELECT kind, subject, summary FROM diagnoses"
      prism-ch sql "SELECT step, duration_s FROM steps ORDER BY duration_s DESC LIMIT 5"
      prism-ch sql "SELECT * FROM gpu_steps" --format parquet --output gpu_steps.parquet
      prism-ch sql "SELECT * FROM losses" --tenant research
      prism-ch sql "SELECT * FROM steps ORDER BY job_id, step" --rows 100 --first-row 200
      prism-ch sql "SHOW TABLES"
      prism-ch sql "DESCRIBE steps"
    """
    from prism_ch.query.answer import BINARY_FORMATS, Answer, FileFormat, answer, answer_bytes, page, track_progress
    from prism_ch.query.layout import drawn_table, plain_table

    if answer_format in BINARY_FORMATS and output is None and sys.stdout.isatty():
        raise UsageError(f"{answer_format} is binary: send it to a file with --output FILE, or to a pipe")
    output = None if output is None else Path(session.path(str(output)))
    settings = page(rows, first_row)
    with session.store() as store, ExitStack() as stack:
        text = sys.stdin.read() if statement == "-" else statement
        report = stack.enter_context(progress("asking", "rows read"))
        mark = stack.enter_context(track_progress(store, report, session.has_left))
        result: Answer | bytes
        if answer_format == "table":
            result = answer(store, text, tenant=tenant, settings=settings, mark=mark)
        else:
            file_format = cast("FileFormat", answer_format)
            result = answer_bytes(store, text, file_format, tenant=tenant, settings=settings, mark=mark)
    if isinstance(result, bytes):
        _write(result, output)
    elif output is None and sys.stdout.isatty():
        emit(drawn_table(result))
    else:
        _write(f"{plain_table(result)}\n".encode(), output)


def _write(content: bytes, output: Path | None) -> None:
    if output is None:
        # sys.stdout.buffer may silently write a part only, if Python runs unbuffered.
        sys.stdout.flush()
        with open(sys.stdout.fileno(), "wb", closefd=False) as stdout:
            stdout.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise InputError(f"{output}: can't be written: {error.strerror}") from error
