"""Kills the service at any moment, and damages its database."""

from __future__ import annotations

import random
import shutil
import time
from functools import partial

from bench.attack.target import Held, Target
from tests.damage import DAMAGE, FLOWS, follow_the_doctor, in_process, results
from tests.e2e.service import until

#: From a start to the next kill at most, seconds.
_LIVES_S = 3.0


def kills(target: Target, until_s: float) -> list[Held]:
    """Kill the service while files land, start it again, and count what has landed."""
    chance = random.Random()  # noqa: S311 - moments to kill at, nothing secret
    killed, before = 0, _landed(target)
    dropped = target.good
    while killed == 0 or time.monotonic() < until_s:
        for _ in range(5):
            target.drop_good()
        time.sleep(chance.uniform(0, _LIVES_S))
        target.service.kill()
        killed += 1
        target.start()
    until(lambda: not target.service.waiting(), target.service.process)
    expected, found = before + target.good - dropped, _landed(target)
    return [
        Held(
            "kills lose nothing and count nothing twice",
            found == expected,
            f"{killed} kills, {found:,} of {expected:,} records",
        )
    ]


def damage(target: Target, until_s: float) -> list[Held]:
    """Damage copies of the stopped service's database, and follow the doctor."""
    target.service.stop()
    folder = target.service.folder
    follow = partial(follow_the_doctor, files=[FLOWS, *sorted((target.service.spool / "done").iterdir())])
    unnamed, unmended, done = [], [], 0
    with in_process() as call:
        whole = call(results, f"chdb://{folder}")
        for kind, harm in DAMAGE.items():
            if done and time.monotonic() > until_s:
                break
            copy = shutil.copytree(folder, folder.with_name("copy"), symlinks=True)
            harm(copy)
            first, last, found = call(follow, f"chdb://{copy}")
            unnamed += [] if first else [kind]
            unmended += [] if not last and found == whole else [kind]
            done += 1
            shutil.rmtree(copy)
    return [
        Held("damage is named by the doctor", not unnamed, f"{done - len(unnamed)} of {done} kinds"),
        Held(
            "and mended by what he says: results as before",
            not unmended,
            f"{done - len(unmended)} of {done} kinds" + (f"; not {', '.join(unmended)}" if unmended else ""),
        ),
    ]


def _landed(target: Target) -> int:
    return int(target.endpoint.ask("SELECT sum(records) FROM arrivals").text)
