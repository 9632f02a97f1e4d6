"""Exporters: what windows found follows on one another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prism_ch.model.exporter import ExporterHistory, ExporterStates


def states(**offset_s: float) -> ExporterStates:
    return replace(ExporterStates.unknown(tuple(offset_s)), clock_offset_s=np.array(list(offset_s.values())))


def rows(history: ExporterHistory) -> list[tuple[str, int, float]]:
    names = [history.exporters[code] for code in history.exporter]
    return list(zip(names, history.window_start_ns.tolist(), history.clock_offset_s.tolist(), strict=True))


def test_windows_follow_on_one_another_by_exporter() -> None:
    first = ExporterHistory.empty().followed_by(states(b=0.1, c=0.3), 0)
    assert rows(first.followed_by(states(a=0.5, b=0.2), 60)) == [
        ("a", 60, 0.5),
        ("b", 0, 0.1),
        ("b", 60, 0.2),
        ("c", 0, 0.3),
    ]


def test_what_is_not_known_is_not_remembered() -> None:
    history = ExporterHistory.empty().followed_by(states(a=0.1), 0).followed_by(states(a=np.nan, b=np.nan), 60)
    assert rows(history) == [("a", 0, 0.1)]
    assert len(history) == 1


def test_the_latest_offset_of_each_and_none_of_others() -> None:
    history = ExporterHistory.empty().followed_by(states(a=0.1, b=0.2), 0).followed_by(states(a=0.3), 60)
    np.testing.assert_array_equal(history.latest_offset_s(["b", "z", "a"]), [0.2, np.nan, 0.3])


def test_nothing_is_known_of_exporters_that_show_nothing() -> None:
    unknown = ExporterStates.unknown(["a", "b"])
    assert len(unknown) == 2
    assert np.isnan(unknown.clock_offset_s).all()
    assert unknown.clock_matches.tolist() == [0, 0]


def test_a_name_for_each_row() -> None:
    with pytest.raises(ValueError, match="2 exporters, but 1 rows"):
        replace(ExporterStates.unknown(["a"]), exporters=("a", "b"))
