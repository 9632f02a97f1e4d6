"""Asks for every format that statements may name: python tests/every_format.py FOLDER. A fault of the engine ends it.

Each view is written in each format with all switches turned on, and one view with each switch on while another is off,
for any two of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from prism_ch.errors import StoreError
from prism_ch.query.allowed import FORMATS, SETTABLE
from prism_ch.query.tenancy import tenant_views
from prism_ch.store.client import connect
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


def statements() -> Iterator[str]:
    """Yield statements without their format."""
    for view in sorted(set(tenant_views()) - SPAN_VIEWS):
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
        for statement in statements():
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
