"""Without users everyone on this machine may read, and no page of a name that only leads here."""

from __future__ import annotations

from pathlib import Path

from prism_ch.store.client import Store
from tests.serving import endpoint


def test_a_name_that_only_leads_here_is_not_answered(store: Store, engine_folder: Path) -> None:
    with endpoint(store, engine_folder, users={}) as served:
        assert served.ask("SELECT 1", "").text == "1\n"
        for host in ("localhost", "localhost:80", "127.0.0.1", "[::1]:9"):
            assert served.ask("SELECT 1", "", headers={"Host": host}).status == 200, host
        for host in ("rebound.example", "127.0.0.1.example:80", "", "x@y"):
            assert served.ask("SELECT 1", "", headers={"Host": host}).code == "497", host
        assert served.ask("", "", method="GET", path="/ping", headers={"Host": "rebound.example"}).text == "Ok.\n"
