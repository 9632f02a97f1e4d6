"""A simulated recording examined as the service examines it by default, in memory: when is what known?"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np

from bench.accuracy.faults.stream import read_flows, read_topology
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.daemon.lateness import ArrivedSecond, Lateness
from prism_ch.daemon.watch import SINCE_S, ExporterArrival, JobSilence, Watch
from prism_ch.model.columns import Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from prism_ch.model.result import PAIR_KINDS
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.simulate import Simulation
from tests.unit.chain import Results, work_window

_SECOND = 10**9
_PARAMS, _SETTINGS = Params(), Settings(url="chdb://-")
#: A record arrives this long after its flow ended, in seconds; arrivals are looked at as often.
_ARRIVES_S = 1


def served(made: Simulation) -> Iterator[tuple[int, Results, Topology]]:
    """Analyse a recording as time goes on; yield what readers see whenever that changes.

    A window is worked once it closes. Before that, whoever falls silent is looked at; what is published then is
    replaced when the window is worked. Analysis takes no time here. The last window ends with the recording.
    """
    topology = read_topology(made.topology)
    flows = read_flows(made.flows, topology)
    arrivals = _Arrivals(flows)
    results, lateness, watch = Results(), Lateness(), Watch()
    start_ns, last_ns = made.summary["window_start_ns"], made.summary["window_end_ns"]
    width_ns = _SETTINGS.window_s * _SECOND
    for now_ns in range(start_ns, last_ns, _ARRIVES_S * _SECOND):
        while start_ns + width_ns <= arrivals.closed_until_ns(now_ns):
            work_window(results, flows, topology, Window(start_ns, start_ns + width_ns), _PARAMS, is_whole=True)
            start_ns += width_ns
            watch.window_worked()
            yield now_ns, results, topology
        until_ns = lateness.arrived_until_ns(arrivals.seconds(now_ns))
        if until_ns is None or until_ns <= start_ns or start_ns == made.summary["window_start_ns"]:
            continue
        jobs, exporters = arrivals.of_jobs(results, now_ns), arrivals.of_exporters(now_ns)
        if watch.is_due(jobs, exporters, until_ns, now_ns / _SECOND):
            ahead = _copied(results)
            work_window(ahead, flows, topology, Window(start_ns, until_ns), _PARAMS, is_whole=True)
            yield now_ns, ahead, topology
    work_window(results, flows, topology, Window(start_ns, last_ns), _PARAMS, is_whole=True)
    yield last_ns, results, topology


def _copied(results: Results) -> Results:
    """Return results that can be gone on with, the old ones staying as they are."""
    jobs = {job_id: copy.copy(job) for job_id, job in results.jobs.items()}
    return Results(jobs, dict(results.cluster), dict(results.incidents), results.memory)


class _Arrivals:
    """When records arrive: all end some time before they do."""

    def __init__(self, flows: FlowBatch) -> None:
        self._flows = flows
        self._ends: list[Int64] = [np.sort(flows.end_ns[flows.exporter == n]) for n in range(len(flows.exporters))]
        self._of_pair = _ends_of_pairs(flows)
        self._all = np.sort(flows.end_ns)

    def closed_until_ns(self, now_ns: int) -> int:
        """Return up to when windows close: when nothing comes any more, all that have passed."""
        newest_ns = max(_newest(ends, now_ns) for ends in self._ends)
        silent = now_ns - newest_ns > _SETTINGS.serve.silent_after_s * _SECOND
        return (now_ns if silent else newest_ns) - _SETTINGS.lateness_s * _SECOND

    def seconds(self, now_ns: int) -> list[ArrivedSecond]:
        """List the seconds of the last minutes in which flows ended that have come."""
        tick = _ARRIVES_S * _SECOND
        since, until = np.searchsorted(self._all, [now_ns - SINCE_S * _SECOND, now_ns - tick], side="right")
        seconds, last, records = np.unique(self._all[since:until] // _SECOND, return_index=True, return_counts=True)
        came_ns = (self._all[since:until][last + records - 1] // tick + 2) * tick
        ends = zip((seconds * _SECOND).tolist(), records.tolist(), came_ns.tolist(), strict=True)
        return [ArrivedSecond(*one, now_ns) for one in ends]

    def of_exporters(self, now_ns: int) -> list[ExporterArrival]:
        """List the exporters that have sent, with their newest flow."""
        newest = [(name, _newest(ends, now_ns)) for name, ends in zip(self._flows.exporters, self._ends, strict=True)]
        return [ExporterArrival(name, last_ns) for name, last_ns in newest if last_ns]

    def of_jobs(self, results: Results, now_ns: int) -> list[JobSilence]:
        """List the jobs that have not ended, with their newest flow."""
        found = []
        for job_id, job in results.jobs.items():
            record, pairs = job.last.job, job.last.pairs
            trains = pairs.kind != PAIR_KINDS.index("other")
            ends = zip(pairs.src[trains].tolist(), pairs.dst[trains].tolist(), strict=True)
            newest = [_newest(self._of_pair[pair], now_ns) for pair in ends]
            sent = [last_ns for last_ns in newest if now_ns - last_ns < SINCE_S * _SECOND]
            if record.status != "ended" and sent:
                known_ns, step_s = record.last_seen_ns, record.step_s_median
                found.append(JobSilence(job_id, record.status, known_ns, max(sent), min(sent), step_s))
        return found


def _ends_of_pairs(flows: FlowBatch) -> dict[tuple[int, int], Int64]:
    """Return when the flows of each pair ended, int64[flows], rising."""
    order = order_by(flows.src, flows.dst, flows.end_ns)
    src, dst, ends = flows.src[order], flows.dst[order], flows.end_ns[order]
    first = run_starts(src, dst)
    names = zip(src[first].tolist(), dst[first].tolist(), strict=True)
    return dict(zip(names, np.split(ends, first[1:]), strict=True))


def _newest(ends: Int64, now_ns: int) -> int:
    """Return the latest of some rising times that has arrived, 0 if none has."""
    count = int(np.searchsorted(ends, now_ns - _ARRIVES_S * _SECOND, side="right"))
    return int(ends[count - 1]) if count else 0
