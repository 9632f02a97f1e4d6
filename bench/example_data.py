"""Fills a database with the made-up training run of sql/examples/data.sql."""

from prism_ch.assets import asset
from prism_ch.store.client import Store
from prism_ch.store.statements import split_statements


def fill(store: Store, gpus: int, steps: int) -> None:
    """Write results of two jobs.

    Parameters: `gpus`, GPUs of each job, a multiple of 8; `steps`, steps of each job, 10 s long.
    """
    for statement in split_statements(asset("sql/examples/data.sql").read_text(encoding="utf-8")):
        sizes = {"gpus": gpus, "steps": steps}
        store.command(statement, {name: size for name, size in sizes.items() if f"{{{name}:" in statement})
