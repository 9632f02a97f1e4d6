"""The commands that ask the database: sql, and the common questions jobs, incidents, steps and tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit, progress, terminal_columns
from prism_ch.errors import InputError, UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def answer_options(command: _Command) -> _Command:
    """Add the options on how an answer looks, whose it is, and where it goes."""
    for option in reversed(
        (
            click.option(
                "--format",
                "answer_format",
                type=click.Choice(["table", "csv", "json", "arrow", "parquet"]),
                default="table",
                show_default=True,
                help="csv has a header; json is one object a line; arrow is an IPC file.",
            ),
            click.option("--tenant", metavar="NAME", help="See only this tenant's rows, as it would itself."),
            click.option("--rows", type=click.IntRange(0), help="Give at most so many rows: a page of the result."),
            click.option(
                "--first-row", type=click.IntRange(0), default=0, show_default=True, help="Where the page starts."
            ),
            click.option(
                "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of to stdout."
            ),
        )
    ):
        command = option(command)
    return command


@click.command(short_help="Answer one reading SQL statement.")
@click.argument("statement", metavar="SELECT")
@answer_options
@shared_options
@pass_session
def sql(session: Session, /, statement: str, **options: Any) -> None:
    """Answer one reading statement: SELECT, WITH, SHOW, DESCRIBE, EXISTS or EXPLAIN.

    Anything that could write, or read what is not in the database, is refused, and so is what is not known to be
    harmless. `-` reads the statement from stdin. SETTINGS at its end may change how results look and lower limits.
    Ctrl-C ends the statement.

    \b
    Examples:
      prism-ch sql "SELECT kind, subject, summary FROM incidents"
      prism-ch sql "SELECT step, duration_s FROM steps ORDER BY duration_s DESC LIMIT 5"
      prism-ch sql "SELECT * FROM gpu_steps" --format parquet --output gpu_steps.parquet
      prism-ch sql "SELECT * FROM losses" --tenant research
      prism-ch sql "SELECT * FROM steps ORDER BY job_id, step" --rows 100 --first-row 200
      prism-ch sql "SHOW TABLES"
      prism-ch sql "DESCRIBE steps"
    """
    _answer(session, statement, {}, **options)


@click.command(short_help="List the jobs.")
@answer_options
@shared_options
@pass_session
def jobs(session: Session, /, **options: Any) -> None:
    """List the jobs: whose, how large, how fast, and how many incidents concern each now.

    Those that run come first, the largest of them on top.

    \b
    Examples:
      prism-ch jobs
      prism-ch jobs --tenant research --format csv
    """
    ask(session, "list_jobs", {}, **options)


@click.command(short_help="List what is wrong: open incidents first, the worst on top.")
@answer_options
@shared_options
@pass_session
def incidents(session: Session, /, **options: Any) -> None:
    """List the incidents. Each is what is wrong, where, since when, what it costs, and what to do.

    Open ones come first, the worst on top. All columns are in the view incidents, the findings that an incident rests
    on in diagnoses, by incident_id.

    \b
    Examples:
      prism-ch incidents
      prism-ch incidents --rows 1 --format json
      prism-ch incidents --tenant research
    """
    ask(session, "list_incidents", {}, **options)


@click.command(short_help="List a job's steps.")
@click.argument("job", metavar="JOB")
@answer_options
@shared_options
@pass_session
def steps(session: Session, /, job: str, **options: Any) -> None:
    """List the steps of a job. Each is how long it took, for what, and the incidents on it.

    \b
    Examples:
      prism-ch steps job-1f0a6c
      prism-ch steps job-1f0a6c --rows 20 --first-row 100
    """
    ask(session, "list_steps", {"job_id": job}, **options)


@click.command(short_help="List what SQL can ask.")
@answer_options
@shared_options
@pass_session
def tables(session: Session, /, **options: Any) -> None:
    """List the views that SQL can ask.

    Each has a line on what is in it; `prism-ch sql "DESCRIBE steps"` shows the columns of one.

    \b
    Examples:
      prism-ch tables
      prism-ch tables --tenant research
    """
    from prism_ch.query.tenancy import listed_views

    ask(session, "list_tables", {"listed": sorted(listed_views())}, **options)


def ask(session: Session, name: str, parameters: Mapping[str, Any], **options: Any) -> None:
    """Answer the question sql/queries/<name>.sql."""
    from prism_ch.store.statements import statement

    _answer(session, statement(name), parameters, **options)


def _answer(
    session: Session,
    statement: str,
    parameters: Mapping[str, Any],
    *,
    answer_format: str,
    tenant: str | None,
    rows: int | None,
    first_row: int,
    output: Path | None,
) -> None:
    from prism_ch.query.answer import BINARY_FORMATS, Answer, FileFormat, answer, answer_bytes, page, track_progress
    from prism_ch.query.layout import plain_table

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
            result = answer(store, text, tenant=tenant, settings=settings, parameters=parameters, mark=mark)
        else:
            file_format = cast("FileFormat", answer_format)
            result = answer_bytes(
                store, text, file_format, tenant=tenant, settings=settings, parameters=parameters, mark=mark
            )
    if isinstance(result, bytes):
        _write(result, output)
    elif output is None and sys.stdout.isatty():
        from prism_ch.query.drawn import drawn_table

        emit(drawn_table(result, terminal_columns()))
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
