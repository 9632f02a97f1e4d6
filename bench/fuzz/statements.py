"""Fuzzes statements: real ones, mutated, each answered or refused in one clear line, for a tenant and an operator."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from sqlglot import tokenize
from sqlglot.errors import TokenError
from sqlglot.tokens import Token

from prism_ch.errors import PrismError
from prism_ch.query.answer import check_statement, run
from prism_ch.query.checked import Limits
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.two_tenants import ALPHA, BRAVO, fill

_LIMITS = Limits(time_s=2.0, memory_bytes=512 << 20, rows_read=10_000_000, result_rows=1000)
#: What is put into statements besides pieces of others.
_SPICE = (
    "'",
    '"',
    "`",
    "(",
    ")",
    "((((((((",
    "[",
    "{",
    "{x:UInt8}",
    "--",
    "/*",
    "*/",
    ";",
    "\0",
    "\\",
    "$$",
    "NULL",
    "*",
    "::",
    "->",
    "UNION ALL",
    "FORMAT CSV",
    "INTO OUTFILE 'x'",
    "SETTINGS max_threads = 0",
    "FINAL",
    "SAMPLE 1/2",
    "WITH x AS",
    "ARRAY JOIN",
    "steps_log",
    "system.parts",
    "file('/etc/passwd')",
    "\u2018",
    "\u00a0",
    "\U0001f600",
    "1e999",
    "9" * 400,
    "EXPLAIN",
    "DROP TABLE jobs",
    "INTERVAL 1 DAY",
    "-1",
    "toDateTime64('x', 9)",
)
_REASON_CHARS_MAX = 2000


def fuzz(seed: int, for_s: float, cases_max: int) -> int:
    """Run cases for a time, in seconds; return how many.

    Raises AssertionError where a statement ends in anything but an answer or one clear line, or shows a tenant rows of
    another.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable by its seed
    whole = _originals()
    with tempfile.TemporaryDirectory() as name, connect(f"chdb://{name}/data") as store:
        migrate(store)
        fill(store)
        case, until_s = 0, time.monotonic() + for_s
        while case < cases_max and time.monotonic() < until_s:
            text = _mutated(whole, chance)
            for tenant in (ALPHA.name, None):
                try:
                    _judge(store, text, tenant)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, case {case}: {error}: {text!r}") from error.__cause__
            case += 1
    return case


def _judge(store: Store, text: str, tenant: str | None) -> None:
    try:
        body = run(store, check_statement(store, text, tenant=tenant, limits=_LIMITS), "TSV")
    except PrismError as error:
        reason = str(error)
        if not reason.strip() or "\n" in reason or len(reason) > _REASON_CHARS_MAX or "Traceback" in reason:
            raise AssertionError(f"the refusal is not one clear line: {reason!r}") from error
    except Exception as error:
        raise AssertionError(f"ends in {error!r}") from error
    else:
        if tenant is not None and BRAVO.name.encode() in body and BRAVO.name not in text:
            raise AssertionError("shows rows of another tenant")


def _originals() -> list[str]:
    """Return the statements of the cookbook and the dashboards."""
    folder = Path(__file__).parents[2] / "sql"
    files = sorted([*folder.glob("examples/*.sql"), *folder.glob("dashboards/**/*.sql"), *folder.glob("queries/*.sql")])
    texts = (path.read_text(encoding="utf-8") for path in files)
    return [text for text in texts if _tokens(text)]


def _mutated(whole: list[str], chance: random.Random) -> str:
    text = chance.choice(whole)
    for _ in range(chance.choice((1, 1, 2, 5))):
        tokens = _tokens(text)
        if not tokens:
            return text
        first = chance.choice(tokens)
        kind = chance.randrange(6)
        if kind == 0:
            text = text[: first.start] + text[first.end + 1 :]
        elif kind == 1:
            text = text[: first.start] + chance.choice(_SPICE) + " " + text[first.start :]
        elif kind == 2:
            text = text[: first.start] + chance.choice(_SPICE) + text[first.end + 1 :]
        elif kind == 3:
            other = chance.choice(whole)
            piece = sorted(chance.choice(_tokens(other)).start for _ in range(2))
            text = text[: first.start] + other[piece[0] : piece[1]] + " " + text[first.start :]
        elif kind == 4:
            at = chance.randrange(len(text))
            text = text[:at] + chr(ord(text[at]) ^ (1 << chance.randrange(7))) + text[at + 1 :]
        else:
            text = text[: chance.randrange(len(text))]
    return text


def _tokens(text: str) -> list[Token]:
    try:
        return tokenize(text, read="clickhouse")
    except TokenError:
        return []
