"""Asks for every format that statements may name: python tests/every_format.py FOLDER. A fault of the engine ends it.

Each type of a view's column is written in each format with all switches turned on, and one view with each switch on
while another is off, for any two of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from prism_ch.errors import StoreError
from prism_ch.query.allowed import FORMATS, SETTABLE
from prism_ch.query.tenancy import tenant_views
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.two_tenants import SPAN_VIEWS, fill

_SWITCHES = [name for name, allowed in sorted(SETTABLE.items()) if allowed.fullmatch("true") and allowed.fullmatch("1")]
_ALL = "SETTINGS " + ", ".join(f"{name} = 1" for name in _SWITCHES)


def parted(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield parts of the names such that for any two one part has the first without the second.

    The places of two names differ in a binary digit; so there are few parts of many names.
    """
    for digit in range((len(names) - 1).bit_length()):
        for value in (0, 1):
            yield [name for place, name in enumerate(names) if place >> digit & 1 == value]


def _of_all_types(store: Store) -> Iterator[str]:
    """Yield few views that have columns of all types of the tenant's."""
    types: dict[str, set[str]] = {}
    asked = "SELECT table, type FROM system.columns WHERE database = currentDatabase() ORDER BY ALL"
    for view, column_type in store.rows(asked):
        if view in tenant_views() - SPAN_VIEWS:
            types.setdefault(view, set()).add(column_type)
    left = set.union(*types.values())
    while left:
        view = max(types, key=lambda name: len(types[name] & left))
        left -= types[view]
        yield view


def statements(store: Store) -> Iterator[str]:
    """Yield statements without their format."""
    for view in _of_all_types(store):
        yield f"SELECT * FROM {view} LIMIT 3 {_ALL}"  # noqa: S608 - views of ours
    for some in parted(_SWITCHES):
        switches = ", ".join(f"{name} = 1" for name in some)
        yield f"SELECT * FROM timeline LIMIT 3 SETTINGS {switches}"  # noqa: S608 - settings of ours
    yield f"SELECT phase, max(job_id), count() FROM timeline GROUP BY phase WITH TOTALS {_ALL}"  # noqa: S608 - as above


def main() -> None:
    """Ask, and write how many answers there were."""
    answers = 0
    with connect(f"chdb://{sys.argv[1]}") as store:
        migrate(store)
        fill(store)
        for statement in statements(store):
            for fmt in sorted(FORMATS):
                sys.stderr.write(f"{statement} FORMAT {fmt}\n")
                try:
                    store.raw(statement, fmt=fmt)
                except StoreError:  # not every format has every type
                    continue
                answers += 1
    sys.stdout.write(f"{answers}\n")


if __name__ == "__main__":
    main()
