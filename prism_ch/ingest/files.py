"""Lands files of flow records: what the command `ingest` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from prism_ch.errors import InputError
from prism_ch.ingest.landing import Count, Lander, Outcome, Progress, land_source
from prism_ch.ingest.sources import find_sources
from prism_ch.ingest.together import in_batches, land_together
from prism_ch.store.client import Store


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
    count = Count(progress, sum(sizes))
    with Lander(store) as lander:
        for batch in in_batches(sources):
            if len(batch) == 1:
                outcomes += land_source(lander, batch[0], fmt, count)
            else:
                outcomes += land_together(store, batch, fmt)
                count.end(sum(source.size_bytes for source in batch))
    failures = tuple(outcome for outcome in outcomes if outcome.error)
    if failures and all(outcome.error and not outcome.records for outcome in outcomes):
        more = f" (and {len(failures) - 1} more could not be read)" if len(failures) > 1 else ""
        raise InputError(failures[0].error + more)
    return LandingReport(
        landings=tuple(o for o in outcomes if o.repeat_of is None and (o.records or not o.error)),
        skipped=tuple(o for o in outcomes if o.repeat_of is not None),
        failures=failures,
    )
