"""Telemetry: exporters that join the steps of a job, and the timeout that would tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.telemetry import (
    MESSAGE_TIMEOUT_S,
    STEP_TIMEOUT_S,
    ResolvedSteps,
    find_merged_records,
    resolve_steps,
)
from prism_ch.model.exporter import Timeouts
from prism_ch.model.finding import Finding
from prism_ch.model.params import MergedParams
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, MB, Flow, batch, every, ring, traffic

PARAMS = MergedParams()
SECOND = 10**9
MINUTE = Window(BEGIN_NS + 120 * SECOND, BEGIN_NS + 180 * SECOND)
STEPS = every(2000, 90, 2000)
UNTOLD = ResolvedSteps(0, np.zeros(2, dtype=bool), np.nan)


def coarse(src: int, dst: int, exporter: str = "coarse") -> list[Flow]:
    """Three records of a minute each."""
    return [Flow(src, dst, start, 60_000, 900 * MB, exporter) for start in every(60_000, 3)]


def fine(*members: int, exporter: str = "fine") -> list[Flow]:
    return [replace(flow, exporter=exporter) for flow in ring(members, STEPS, length_ms=200)]


def timeouts(idle_s: float = np.nan, at_most_s: float = np.nan) -> Timeouts:
    nothing = np.full(2, np.nan)
    return Timeouts(("coarse", "fine"), np.array([idle_s, np.nan]), np.array([at_most_s, np.nan]), nothing)


def found(
    flows: Sequence[Flow],
    told: ResolvedSteps = UNTOLD,
    inferred: Timeouts | None = None,
    known: Sequence[Finding] = (),
    window: Window = MINUTE,
) -> tuple[Finding, ...]:
    rows = batch(flows, ["coarse", "fine"])
    merged = rows.end_ns - rows.start_ns > 30 * SECOND
    return find_merged_records("job", rows, merged, told, inferred or timeouts(), known, window, PARAMS)


class TestFound:
    """One finding an exporter that joins records."""

    def test_it_names_the_exporter_and_a_timeout_that_would_do(self) -> None:
        [one] = found([*coarse(0, 1), *coarse(1, 0)])
        assert (one.kind, one.subject_type, one.subject) == ("telemetry", "exporter", "coarse")
        assert (one.status, one.severity, one.slowdown, one.score) == ("open", "warning", 0.0, 0.0)
        assert (one.observed, one.expected) == (60.0, STEP_TIMEOUT_S)
        assert (one.start_ns, one.end_ns) == (BEGIN_NS, BEGIN_NS + 180 * SECOND)
        assert one.summary == (
            "Exporter coarse joins what this job sends into records of 60 s: its idle timeout, which its records do "
            "not show, is longer than the pauses between steps, so no step can be told; set it to 0.1 s or less."
        )

    def test_the_evidence_says_what_was_seen(self) -> None:
        [one] = found([*coarse(0, 1), *coarse(1, 0)], inferred=timeouts(at_most_s=20.0))
        evidence = one.evidence
        assert evidence["records"] == 6
        assert evidence["pairs"] == 2
        assert evidence["idle_timeout_s"] is None
        assert evidence["idle_timeout_at_most_s"] == 20.0
        assert evidence["timeout_that_would_do_s"] == STEP_TIMEOUT_S
        assert evidence["because"]

    @pytest.mark.parametrize(
        "inferred, said", [(timeouts(15.0, 15.0), "about 15 s"), (timeouts(at_most_s=20.0), "at most 20 s")]
    )
    def test_it_says_what_is_known_of_the_timeout(self, inferred: Timeouts, said: str) -> None:
        [one] = found(coarse(0, 1), inferred=inferred)
        assert f"its idle timeout, {said}, is longer" in one.summary

    def test_each_exporter_has_one(self) -> None:
        assert [one.subject for one in found([*coarse(0, 1), *coarse(1, 0, "fine")])] == ["coarse", "fine"]

    def test_an_exporter_without_a_name_is_called_so(self) -> None:
        rows = batch(coarse(0, 1, ""), ["", "fine"])
        everything = np.ones(3, dtype=bool)
        inferred = replace(timeouts(), exporters=("", "fine"))
        [one] = find_merged_records("job", rows, everything, UNTOLD, inferred, (), MINUTE, PARAMS)
        assert one.summary.startswith("Exporter without a name joins")

    def test_pauses_seen_by_other_exporters_give_the_timeout(self) -> None:
        told = ResolvedSteps(90, np.array([False, True]), 1.8)
        [one] = found([*coarse(0, 1), *fine(2, 3)], told)
        assert one.expected == pytest.approx(0.9)
        assert "longer than the pauses of 1.8 s between steps that other exporters show; set it to 0.9 s" in one.summary
        assert one.start_ns == MINUTE.start_ns
        assert one.last_step == 89

    def test_messages_are_hidden_where_other_records_show_steps(self) -> None:
        told = ResolvedSteps(90, np.array([True, False]), 1.8)
        [one] = found([*coarse(0, 1), *fine(2, 3, exporter="coarse")], told)
        assert one.expected == MESSAGE_TIMEOUT_S
        assert "longer than the pauses inside a step" in one.summary

    def test_nothing_is_found_in_fine_records(self) -> None:
        assert found(fine(0, 1, 2)) == ()


class TestGoingOn:
    """A finding lasts while records run on."""

    def known(self) -> Finding:
        [one] = found(coarse(0, 1)[:2], window=Window(BEGIN_NS, BEGIN_NS + 120 * SECOND))
        return one

    def test_it_keeps_its_name_and_beginning(self) -> None:
        before = self.known()
        [one] = found([*coarse(0, 1)[1:]], known=[before])
        assert (one.diagnosis_id, one.start_ns, one.status) == (before.diagnosis_id, before.start_ns, "open")
        assert one.end_ns > before.end_ns

    def test_it_is_closed_when_the_exporter_shows_steps(self) -> None:
        before = self.known()
        [one] = found(fine(0, 1, exporter="coarse"), known=[before])
        assert one == replace(before, status="closed")

    def test_it_stays_while_nothing_of_the_exporter_is_seen(self) -> None:
        before = self.known()
        assert found(fine(2, 3), known=[before]) == (before,)
        assert found(coarse(2, 3, "fine"), known=[before])[1] == before

    def test_other_findings_are_none_of_its_business(self) -> None:
        assert found(fine(0, 1), known=[replace(self.known(), kind="slow_step")]) == ()


class TestResolvedSteps:
    """What the other records of a job show of its steps."""

    def told(self, flows: Sequence[Flow], steps: int) -> ResolvedSteps:
        rows = batch(flows, ["coarse", "fine"])
        merged = rows.end_ns - rows.start_ns > 30 * SECOND
        closing = traffic([flow for flow in flows if flow.length_ms < 30_000])
        return resolve_steps(rows, merged, closing, steps)

    def test_it_says_who_shows_them_and_how_long_they_pause(self) -> None:
        told = self.told([*coarse(0, 1), *fine(2, 3, 4)], 90)
        assert (told.steps, told.exporter.tolist()) == (90, [False, True])
        assert told.silence_s == pytest.approx(1.8)

    def test_silences_within_a_step_do_not_count(self) -> None:
        """Two bursts a step: one silence of 0.8 s, one of 0.9 s in each."""
        buckets = [replace(flow, start_ms=flow.start_ms - 1000, size=flow.size) for flow in fine(2, 3, 4)]
        told = self.told([*fine(2, 3, 4), *(replace(flow, length_ms=100) for flow in buckets)], 90)
        assert told.silence_s == pytest.approx(0.9)

    def test_without_steps_nothing_is_told(self) -> None:
        told = self.told([*coarse(0, 1), *fine(2, 3)], 0)
        assert not told.exporter.any()
        assert np.isnan(told.silence_s)

    def test_a_single_step_has_no_pause(self) -> None:
        assert np.isnan(self.told(fine(2, 3)[:1], 1).silence_s)
