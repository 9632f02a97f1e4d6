"""Writes sql/README.md, questions and answers about a made-up run: `python -m tests.cookbook > sql/README.md`."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import example_data
from prism_ch.assets import asset
from prism_ch.query.answer import answer
from prism_ch.query.layout import plain_table
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

#: Questions about the whole network, which tenants can't ask.
OPERATORS_ONLY = {"11_traffic", "12_trust"}
GPUS, STEPS = 16, 1000

_HEAD = """\
# SQL cookbook

Twelve questions, each a file in [examples/](examples/), and what they answer about two made-up jobs of {gpus} GPUs over
three hours ([data.sql](examples/data.sql)). Run one with

```sh
prism-ch sql - < sql/examples/01_jobs.sql
prism-ch sql - --tenant research < sql/examples/07_losses.sql    # as that tenant sees it
```

`SHOW TABLES` lists what there is to read and `DESCRIBE steps` tells what the columns of one mean. Times are UTC. A
condition on `job_id` and one on `step` make questions about `gpu_steps` and `timeline` fast, as that is how rows are
ordered. In Python `prism_ch.query.api` answers; [examples/notebook.ipynb](examples/notebook.ipynb) shows how.
"""
_FOOT = """
The other folders: `migrations/` is the schema, numbered, and `schema.sql` its sum; `queries/` what the program itself
asks; `roles/` whose rows are a tenant's; `functions.txt` the functions that a statement may call.

Written by `python -m tests.cookbook > sql/README.md`.
"""


def examples() -> Iterator[tuple[str, str, str]]:
    """Yield name, question and statement of each example, in order."""
    for file in sorted(asset("sql/examples").iterdir(), key=lambda file: file.name):
        if file.name[0].isdigit():
            head, _, sql = file.read_text(encoding="utf-8").partition("\n")
            yield file.name.removesuffix(".sql"), head.removeprefix("-- "), sql.strip()


def page(store: Store) -> str:
    """Return the page, with answers from a database that holds the example run."""
    parts = [_HEAD.format(gpus=GPUS)]
    for number, (name, asks, sql) in enumerate(examples(), start=1):
        whose = "\nFor operators: it reads what is of the whole network.\n" if name in OPERATORS_ONLY else ""
        table = plain_table(answer(store, sql))
        parts.append(f"\n## {number}. {asks}\n{whose}\n```sql\n{sql}\n```\n\n```text\n{table}\n```\n")
    return "".join([*parts, _FOOT])


def main() -> None:
    """Fill a database in a temporary folder and print the page."""
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as folder, connect(f"chdb://{Path(folder)}") as store:
        migrate(store)
        example_data.fill(store, GPUS, STEPS)
        sys.stdout.write(page(store))


if __name__ == "__main__":
    main()
