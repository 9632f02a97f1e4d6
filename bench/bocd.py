"""What changepoint detection costs and how exact it is, beside other libraries on the same data in one process.

Run with `make bench`. Times are of the processor, so that they are of one core whoever else is at work, and medians.
Every library gets the data as deviations from the median in scaled median deviations, and a prior as of unit width: its
own choice of a prior costs none of them anything, and ours is timed with and without. Nobody is asked for run lengths,
as the analysis asks for none. The slower a library is, the fewer sequences it gets. Exact is our own posterior with no
run dropped or merged, which the tests hold equal to a plain implementation.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.accuracy.peers import fast_bocpd, focus, pelt
from bench.throughput import note
from prism_ch.core import bocd, robust
from prism_ch.core.arrays import Float64, Int64

#: Bounds: microseconds of a core for a datum, how many times as fast as fast-bocpd, difference from the exact mass.
US_MOST, FASTER_LEAST, ERROR_MOST = 0.5, 30.0, 1e-6

#: What is tried of our own: as it is by default, with runs dropped sooner, with runs merged later, with none merged.
OURS: dict[str, dict[str, float]] = {
    "ours": {},
    "ours, below 1e-12 dropped": {"dropped_mass": 1e-12},
    "ours, merged where more alike": {"tolerance": 1.3e-8, "old_runs": 2_000},
    "ours, none dropped or merged": {"max_run": 4_000},
}

_EXPECTED_RUN = 100.0
_PRIOR = bocd.Prior(np.zeros(1), np.ones(1))
_RECORDED = Path(__file__).parents[1] / "tests" / "data" / "production_timings" / "flows.parquet"


@dataclass(frozen=True, slots=True)
class Data:
    """Sequences end to end, standardised: `values` float64[n] and `offsets` int64[k+1]."""

    name: str
    values: Float64
    offsets: Int64

    def first(self, sequences: int, most: int | None = None) -> list[Float64]:
        """Return the first sequences, each cut to at most `most` data."""
        return [self.values[a:b][:most] for a, b in zip(self.offsets[:sequences], self.offsets[1:], strict=False)]


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: its package, what is asked of it, of how many sequences and data of each."""

    package: str
    what: str
    run: Callable[[Float64], object]
    sequences: int
    most: int | None = None

    @property
    def name(self) -> str:
        """Its name without a version."""
        return f"{self.package}, {self.what}"

    def title(self) -> str | None:
        """Return its name with the installed version, None where it is not installed."""
        try:
            return f"{self.package} {version(self.package)}, {self.what}"
        except PackageNotFoundError:
            return None


def _bocd(series: Float64) -> None:
    library = import_module("bocd")
    detector = library.BayesianOnlineChangePointDetection(
        library.ConstantHazard(_EXPECTED_RUN), library.StudentT(mu=0, kappa=0.1, alpha=1, beta=1)
    )
    for value in series:
        detector.update(value)


def _fast(series: Float64, max_run: int | None) -> None:
    fast_bocpd(series, 0.5, expected_run=_EXPECTED_RUN, max_run=max_run or len(series))


TRUNCATED = Peer("fast-bocpd", "256 runs", partial(_fast, max_run=256), 16)
WHOLE = Peer("fast-bocpd", "all runs", partial(_fast, max_run=None), 8)
PEERS = (
    TRUNCATED,
    WHOLE,
    Peer("ruptures", "PELT l2", lambda series: pelt("linear")(series, 10.0), 8),
    Peer("changepoint-online", "FOCuS", lambda series: focus(series, 10.0), 8),
    Peer("bocd", "all runs, 200 data only", _bocd, 1, 200),
)


def make_data(seed: int = 0) -> list[Data]:
    """Draw sequences of several kinds, and read the gaps of recorded traffic."""
    noise = np.random.default_rng(seed)
    sequences, length, run = 512, 2_000, 100
    unit = noise.normal(size=(sequences, length))
    level, width = noise.normal(0, 3, (sequences, length // run)), noise.uniform(0.3, 1.5, (sequences, length // run))
    short = noise.integers(10, 60, 20_000)
    return [
        _standardised("piecewise, changes each 100", level.repeat(run, axis=1) + width.repeat(run, axis=1) * unit),
        _standardised("stationary", noise.normal(size=(sequences, length))),
        _standardised(
            "gaps, 8 short and 1 long",
            np.tile([0.0] * 8 + [4.6], length // 9 * sequences).reshape(sequences, -1),
            0.1 * unit[:, : length // 9 * 9],
        ),
        _recorded_gaps(),
        Data("many short, 10 to 59", noise.normal(size=int(short.sum())), np.concatenate([[0], np.cumsum(short)])),
    ]


def _standardised(name: str, *parts: Float64) -> Data:
    rows = np.sum(parts, axis=0)
    return Data(name, robust.robust_z(rows, axis=1, floor=1e-3).ravel(), np.arange(len(rows) + 1) * rows.shape[1])


def _recorded_gaps() -> Data:
    """Return logarithms of the gaps between the bursts of each pair in a shipped recording."""
    flows = pq.read_table(_RECORDED, columns=["src_addr", "dst_addr", "time_flow_start_ns", "time_flow_end_ns"])
    names = pc.binary_join_element_wise(
        flows["src_addr"].cast(pa.string()), flows["dst_addr"].cast(pa.string()), " "
    ).combine_chunks()
    pair = np.asarray(names.dictionary_encode().indices)
    start_ns, end_ns = (flows[name].to_numpy() for name in ("time_flow_start_ns", "time_flow_end_ns"))
    order = np.lexsort((start_ns, pair))
    pair, start_ns, end_ns = pair[order], start_ns[order], end_ns[order]
    gap_ns = start_ns[1:] - end_ns[:-1]
    between = (pair[1:] == pair[:-1]) & (gap_ns > 0)
    line, log_gap = pair[1:][between].astype(np.int32), np.log(gap_ns[between])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(line))])
    prior = bocd.robust_prior(log_gap, offsets)
    return Data("gaps of recorded pairs", (log_gap - prior.mu0[line]) / np.sqrt(prior.beta0[line]), offsets)


def cost_us(call: Callable[[], object], data: int, repeats: int) -> float:
    """Return the median time of the processor for a datum, in microseconds."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times) / data * 1e6


def errors(data: Data, sequences: int = 64) -> dict[str, tuple[float, float, float]]:
    """Compare the new-run mass of some sequences with the exact one.

    Returns for each of our own the largest difference, its mean, and the bound on that mean for data as the model makes
    them.
    """
    offsets = data.offsets[: sequences + 1]
    detect = partial(_detect, data.values[: offsets[-1]], offsets, _PRIOR)
    exact = detect(max_run=max(32, int(np.diff(offsets).max())))
    compared = {}
    for name, limits in OURS.items():
        found = detect(**limits)
        difference = np.abs(found.new_run_mass - exact.new_run_mass)
        bound = 2 * float(found.error_bound[offsets[1:] - 1].mean())
        compared[name] = float(difference.max()), float(difference.mean()), bound
    return compared


def _detect(values: Float64, offsets: Int64, prior: bocd.Prior | None, **limits: Any) -> bocd.Changepoints:
    return bocd.detect(values, offsets, prior, expected_run=_EXPECTED_RUN, run_lengths=False, **limits)


def measure(data: Data, repeats: int) -> None:
    """Time all on one kind of sequences, compare with the exact posterior, and print both."""
    lengths = np.diff(data.offsets)
    print(f"\n{data.name}: {len(lengths):,} sequences, {len(data.values):,} data, {int(np.median(lengths))} the median")
    print(f"  {'us a datum':>46}{'off at most':>13}{'on average':>12}{'bound on it':>13}")
    compared = errors(data)
    ours = {}
    for name, limits in OURS.items():
        note(f"{data.name}: {name}")
        ours[name] = cost_us(partial(_detect, data.values, data.offsets, _PRIOR, **limits), len(data.values), repeats)
        most, mean, bound = compared[name]
        print(f"  {name:34}{ours[name]:12.2f}{most:13.1e}{mean:12.1e}{bound:13.1e}")
    with_prior = cost_us(partial(_detect, data.values, data.offsets, None), len(data.values), repeats)
    print(f"  {'ours, its prior from the data':34}{with_prior:12.2f}")
    peers: dict[str, float] = {}
    for peer in PEERS:
        title = peer.title()
        if title is None:
            print(f"  {peer.name}: not installed")
            continue
        note(f"{data.name}: {title}")
        peers[peer.name] = _cost_of_peer(peer, data, repeats)
        print(f"  {title:34}{peers[peer.name]:12.2f}")
    _judge("us a datum", ours["ours"], US_MOST, holds=ours["ours"] <= US_MOST)
    for peer in (TRUNCATED, WHOLE):
        if peer.name in peers:
            ratio = peers[peer.name] / ours["ours"]
            _judge(f"times as fast as {peer.name}", ratio, FASTER_LEAST, holds=ratio >= FASTER_LEAST)
    _judge("off at most", compared["ours"][0], ERROR_MOST, holds=compared["ours"][0] <= ERROR_MOST)


def _cost_of_peer(peer: Peer, data: Data, repeats: int) -> float:
    chosen = data.first(peer.sequences, peer.most)
    peer.run(chosen[0])  # imports the library

    def all_of_them() -> None:
        for series in chosen:
            peer.run(series)

    return cost_us(all_of_them, sum(map(len, chosen)), repeats)


def _judge(what: str, value: float, bound: float, *, holds: bool) -> None:
    print(f"  {'holds' if holds else 'NOT HELD':9} {what}: {value:.3g}, bound {bound:g}")


def main() -> None:
    """Measure each kind of sequences and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="how often each is timed (default: 5)")
    chosen = parser.parse_args()
    print("Changepoints (BOCD): time of one core, and the new-run mass against the exact posterior")
    for data in make_data():
        note(data.name)
        measure(data, chosen.repeats)


if __name__ == "__main__":
    main()
