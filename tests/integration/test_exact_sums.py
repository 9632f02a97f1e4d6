"""Sums of seconds are exact: no merge, and no order of rows, changes their last digit."""

from __future__ import annotations

import pytest

from prism_ch.store.client import Store

STEPS = 10


@pytest.mark.parametrize("together", [1, 3, STEPS])
def test_time_of_steps_is_exact_in_any_order(store: Store, together: int) -> None:
    store.command("INSERT INTO revisions (job_id, revision) VALUES ('', 1), ('a', 1)")
    store.command("INSERT INTO jobs_log (job_id, revision, tenant, endpoints) VALUES ('a', 1, 'alpha', 2)")
    row = "SELECT 'a', 1, {steps:UInt32} - 1 - number, 0.1 FROM numbers({first:UInt32}, {together:UInt32})"
    for first in range(0, STEPS, together):
        given = {"steps": STEPS, "first": first, "together": min(together, STEPS - first)}
        store.command(f"INSERT INTO steps_log (job_id, revision, step, duration_s) {row}", given)
    # Ten times 0.1 s, added up as floating-point numbers, are 0.9999999999999999 s.
    assert store.scalar("SELECT gpu_hours FROM tenant_summary") == 2 / 3600
