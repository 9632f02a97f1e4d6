"""Lands files of flow records: what the command `ingest` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prism_ch.errors import InputError
from prism_ch.ingest.contents import read_contents
from prism_ch.ingest.landing import Lander, Outcome
from prism_ch.ingest.sources import Source, find_sources
from prism_ch.store.client import Store

#: Called with how many bytes have landed, and how many there are as far as is known.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LandingReport:
    """What became of the records of some files, by source in the order of landing.

    `landings` are the contents that landed now, `skipped` those that had landed before and were left alone, `failures`
    those that could not be read to their end; what came before the damage has landed and is counted in `landings` too.
    """

    landings: tuple[Outcome, ...] = ()
    skipped: tuple[Outcome, ...] = ()
    failures: tuple[Outcome, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of what landed now."""
        return tuple(outcome.source for outcome in self.landings)

    @property
    def records(self) -> int:
        """Count the records that landed now, used or rejected."""
        return sum(outcome.records for outcome in self.landings)

    @property
    def landed(self) -> int:
        """Count the records that landed now and can be used."""
        return sum(outcome.landed for outcome in self.landings)

    @property
    def rejected(self) -> dict[str, int]:
        """Count the records that landed now and can't be used, by reason."""
        return dict(sum((Counter(outcome.rejected) for outcome in self.landings), Counter()))


def land_files(
    store: Store, patterns: Sequence[str], fmt: str = "auto", *, progress: Progress | None = None
) -> LandingReport:
    """Land the flow records of files, each content once however often it is given.

    Parameters: `patterns`, paths, folders, globs, or - for standard input; `fmt`, auto or the name of a Format;
    `progress`, see Progress, called whenever a chunk has landed.
    Raises InputError where a pattern means no file, or no source could be read at all.
    """
    sources = find_sources(patterns)
    sizes = [source.size_bytes for source in sources]
    outcomes: list[Outcome] = []
    with Lander(store) as lander:
        for number, source in enumerate(sources):
            outcomes += _land(lander, source, fmt, _Count(progress, sum(sizes[:number]), sum(sizes)))
    failures = tuple(outcome for outcome in outcomes if outcome.error)
    if failures and all(outcome.error and not outcome.records for outcome in outcomes):
        more = f" (and {len(failures) - 1} more could not be read)" if len(failures) > 1 else ""
        raise InputError(failures[0].error + more)
    return LandingReport(
        landings=tuple(o for o in outcomes if o.repeat_of is None and (o.records or not o.error)),
        skipped=tuple(o for o in outcomes if o.repeat_of is not None),
        failures=failures,
    )


def land_file(lander: Lander, source: Source) -> Outcome:
    """Land one file, whatever its format; an InputError becomes part of the outcome."""
    first, *others = _land(lander, source, "auto", _Count(None, 0, 0))
    return sum(others, first)


class _Count:
    """Tells how far landing has come, over all sources, as the contents of one source land."""

    def __init__(self, progress: Progress | None, before: int, total: int) -> None:
        self._progress = progress
        self._before = before
        self._total = total

    def __call__(self, read: int) -> None:
        """Tell that so many bytes of the present content have landed."""
        if self._progress is not None:
            done = self._before + read
            self._progress(done, max(self._total, done))

    def end(self, size_bytes: int) -> None:
        """Go on to the next content."""
        self._before += size_bytes


def _land(lander: Lander, source: Source, fmt: str, count: _Count) -> list[Outcome]:
    """Land one source; an InputError becomes part of its outcome, so that the other sources land."""
    outcomes: dict[str | None, Outcome] = {}
    try:
        for content in read_contents(source, fmt):
            outcome = lander.land(content, count)
            count.end(content.size_bytes)
            before = outcomes.get(outcome.repeat_of)
            outcomes[outcome.repeat_of] = outcome if before is None else before + outcome
    except InputError as error:
        failure = Outcome(source.name, 0, {}, error=str(error))
        outcomes[None] = outcomes[None] + failure if None in outcomes else failure
    return list(outcomes.values())
