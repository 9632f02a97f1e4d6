"""Takes memory: hostile statements at once, and small files and inserts that unpack to much."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

from bench.attack.target import Held, Others, Target
from tests.e2e.commands import prism_ch_process
from tests.e2e.test_bombs import BOMBS

#: Statements at once, and what each wants all memory or time for.
_AT_ONCE = 16
_HOSTILE = (
    "SELECT length(groupArray(toString(number))) FROM numbers(100000000000)",
    "SELECT uniqExact(number) FROM numbers(100000000000)",
    "SELECT number FROM numbers(10000000000) ORDER BY cityHash64(number)",
    "SELECT count() FROM numbers(1000000) AS a CROSS JOIN numbers(1000000) AS b",
    "SELECT arrayMap(x -> repeat('x', 1000), range(1000000)) FROM numbers(1000)",
    "SELECT g, groupArray(x) FROM (SELECT number % 7 AS g, repeat('y', 10000) AS x FROM numbers(10000000)) GROUP BY g",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    "SELECT repeat('a', 1000000000)",
)
#: Others wait no longer, in seconds, for 95 of 100 answers.
_P95_S = 2.0
_LANDED_WITHIN_S = 30.0
#: Bombs that are sent at least, whatever time there is.
_BOMBS = 20
#: The coding of a bomb's body, and the statement that takes it, by the end of its name.
_CODINGS = {".zst": "zstd", ".gz": "gzip"}
_INSERTS = {
    ".gz": "INSERT INTO flow_json_lines (line) FORMAT LineAsString",
    ".zst": "INSERT INTO flow_json_lines (line) FORMAT LineAsString",
    ".parquet": "INSERT INTO flow_landing FORMAT Parquet",
    ".arrow": "INSERT INTO flow_landing FORMAT Arrow",
}


def hostile_statements(target: Target, until_s: float) -> list[Held]:
    """Send hostile statements, many at once, while others ask small questions."""
    asked = 0
    with Others(target) as others, ThreadPoolExecutor(_AT_ONCE) as pool:
        statements = cycle(_HOSTILE)
        while asked == 0 or time.monotonic() < until_s:
            sent = [pool.submit(_ask, target, next(statements), user) for user in ("reader", "alpha") * (_AT_ONCE // 2)]
            asked += len(sent)
            for each in sent:
                each.result()
            if not target.is_alive():
                break
    peak = f"peak {target.peak_bytes() / 2**30:.1f} GiB" if target.is_alive() else "killed"
    return [
        Held(f"{_AT_ONCE} hostile statements at once: not killed", target.is_alive(), f"{asked:,} sent, {peak}"),
        Held(f"others meanwhile: p95 <= {_P95_S:.0f} s", others.p95_s <= _P95_S and not others.refused, others.figures),
    ]


def bombs(target: Target, until_s: float) -> list[Held]:
    """Send bombs by every way in, at least 20 of them."""
    sent = 0
    late = []
    home = target.service.folder.parent / "bombs"
    home.mkdir()
    with Others(target) as others:
        for name, make in BOMBS.items():
            if (sent >= _BOMBS and time.monotonic() > until_s) or not target.is_alive():
                break
            bomb = home / name
            make(bomb)
            target.service.drop(bomb, name)
            if target.lands_within(_LANDED_WITHIN_S) >= _LANDED_WITHIN_S:
                late.append(name)
            _insert(target, bomb)
            prism_ch_process("ingest", bomb, folder=target.service.folder)
            sent += 3
            bomb.unlink()
    peak = f"peak {target.peak_bytes() / 2**30:.1f} GiB" if target.is_alive() else "killed"
    return [
        Held("bombs by spool, HTTP and ingest: not killed", target.is_alive(), f"{sent} sent, {peak}"),
        Held("a good file behind each lands within 30 s", not late, f"late: {', '.join(late) or 'none'}"),
        Held(f"others meanwhile: p95 <= {_P95_S:.0f} s", others.p95_s <= _P95_S and not others.refused, others.figures),
    ]


def _ask(target: Target, statement: str, user: str) -> None:
    try:
        target.endpoint.ask(statement, user)
    except OSError:  # it was cut off, which is an answer too
        return


def _insert(target: Target, bomb: Path) -> None:
    coding = _CODINGS.get(bomb.suffix)
    headers = {"Content-Encoding": coding} if coding else {}
    try:
        target.endpoint.ask(bomb.read_bytes(), "collector", headers=headers, query=_INSERTS[bomb.suffix])
    except OSError:
        return
