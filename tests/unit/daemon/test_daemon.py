"""A clock that is set is noticed once, in either direction; one that is steered is not."""

import pytest

from prism_ch.daemon.daemon import CLOCK_JUMP_S, ClockWatch


@pytest.mark.parametrize("jump_s, noticed", [(3600.0, True), (-3600.0, True), (CLOCK_JUMP_S / 2, False), (0.0, False)])
def test_jumps_are_noticed_once(jump_s: float, noticed: bool) -> None:
    clocks = {"day": 1000.0, "steady": 5.0}
    watch = ClockWatch(lambda: clocks["day"], lambda: clocks["steady"])
    clocks = {"day": 1010.0 + jump_s, "steady": 15.0}
    assert watch.jump_s() == (pytest.approx(jump_s) if noticed else 0.0)
    clocks = {"day": 1020.0 + jump_s, "steady": 25.0}
    assert watch.jump_s() == 0.0
