"""Recognise: which endpoints train one model together (LLMPrism, section IV-A).

1. Pairs that recur and carry a fair share of their endpoints' payload, inside one tenant, are edges.
2. Disjoint sets over the edges give components; tensor-parallel traffic never leaves a server, so a rail-optimised
   job shows as one component a rail.
3. Components on much the same servers (overlap of their sets) whose activity rises and falls together are one job.
4. A job that shares half its endpoints with a known one of its tenant continues it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from scipy import fft

from prism_ch.core import jaccard
from prism_ch.core.disjoint_set import components
from prism_ch.model.columns import Bool, Complex128, Float64, Int32, Int64
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.params import RecogniseParams
from prism_ch.model.result import JobState
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Says how much alike the components of each listed pair are, float64[pairs] in 0..1.
_Likeness = Callable[[Int64, Int64], Float64]


def recognise(
    traffic: Traffic, edge: Bool, merged: Bool, topology: Topology, known: Sequence[JobState], params: RecogniseParams
) -> list[RecognisedJob]:
    """Find the jobs in a span of traffic, those with the most endpoints first.

    Parameters: `traffic`, the bursts of the span; `edge` bool[pairs], those that carry the steady traffic of a job, and
    `merged` bool[pairs], those of them whose records run on over many steps; `topology`, whose rows the traffic names;
    `known`, the jobs of earlier windows. Endpoints without an edge are in no job.
    """
    if not edge.any():
        return []
    kept, merged = traffic.keep_pairs(edge), merged[edge]
    label = components(len(topology), kept.pair_src, kept.pair_dst)
    paired = np.zeros(len(topology), dtype=bool)
    paired[kept.pair_src] = paired[kept.pair_dst] = True
    numbers = np.unique(label[paired])
    component = np.full(len(topology), -1, dtype=np.int32)
    component[paired] = np.searchsorted(numbers, label[paired]).astype(np.int32)
    job = _merge_rails(component, kept, merged, topology, known, params)
    return _identify(job, kept, topology, known, params)


def recurring_pairs(traffic: Traffic, topology: Topology, params: RecogniseParams) -> Bool:
    """Mask the pairs that recur, spread over their endpoints' time, weigh enough, and stay inside one tenant.

    Returns bool[pairs]. A direction is judged by itself: the first parameters may be broadcast along an edge that
    later carries gradients the other way only.
    """
    src, dst = traffic.pair_src, traffic.pair_dst
    bursts = np.bincount(traffic.pair, minlength=len(src))
    payload = np.bincount(traffic.pair, weights=traffic.payload, minlength=len(src))
    spread = _payload_spread_ns(traffic, params.payload_tail)
    main, lifetime = np.zeros(len(topology)), np.zeros(len(topology))
    for side in (src, dst):
        np.maximum.at(main, side, payload)
        np.maximum.at(lifetime, side, spread)
    steady: Bool = (
        (bursts >= params.min_bursts)
        & (spread >= params.min_spread * np.minimum(lifetime[src], lifetime[dst]))
        & (payload >= params.min_pair_share * np.minimum(main[src], main[dst]))
        & (topology.tenant[src] == topology.tenant[dst])
        & (topology.server[src] != topology.server[dst])
    )
    return steady


def _payload_spread_ns(traffic: Traffic, tail: float) -> Float64:
    """Return the time in which each pair moves its payload but for a `tail` at either end, float64[pairs], in ns."""
    pairs = len(traffic.pair_src)
    total = np.bincount(traffic.pair, weights=traffic.payload, minlength=pairs)
    moved = np.cumsum(traffic.payload) - (np.cumsum(total) - total)[traffic.pair]
    share = moved / np.maximum(total, 1)[traffic.pair]
    first = np.full(pairs, np.iinfo(np.int64).max)
    last = np.full(pairs, np.iinfo(np.int64).max)
    np.minimum.at(first, traffic.pair[share > tail], traffic.end_ns[share > tail])
    np.minimum.at(last, traffic.pair[share >= 1 - tail], traffic.end_ns[share >= 1 - tail])
    spread: Float64 = (last - first).astype(np.float64)
    return spread


def _told_before(component: Int32, known: Sequence[JobState], params: RecogniseParams) -> tuple[Bool, Bool]:
    """Say which components were one settled job, and which were different jobs, one settled; bool[count, count] each.

    A component belongs to the job in which most of its endpoints were.
    """
    size = np.bincount(component[component >= 0])
    job, settled = np.full(len(size), -1), np.zeros(len(size), dtype=bool)
    for row, state in enumerate(known):
        inside = component[state.members.endpoint]
        mine = np.bincount(inside[inside >= 0], minlength=len(size)) > size / 2
        job[mine], settled[mine] = row, len(state.steps) >= params.settled_steps
    told = (job[:, None] >= 0) & (job[None, :] >= 0) & (settled[:, None] | settled[None, :])
    same = job[:, None] == job[None, :]
    return told & same, told & ~same


def _merge_rails(
    component: Int32,
    traffic: Traffic,
    merged: Bool,
    topology: Topology,
    known: Sequence[JobState],
    params: RecogniseParams,
) -> Int32:
    """Join components into jobs; return each endpoint's job number or -1.

    Components on much the same servers are joined where they are active together, at whatever distance; what that
    gives, on whatever servers, where it is active at the same moments: rings of several channels may visit disjoint
    sets of servers. Merged pairs are active all the time: components of nothing else are joined by their volumes.
    """
    timed = traffic.take(~merged[traffic.pair])
    bins, alike = params.activity_bins, params.co_activity_min

    def together(component: Int32, lags: int) -> _Likeness:
        """Compare components by their activity."""
        return lambda left, right: _co_activity(component[timed.src], timed, left, right, bins, lags)

    rails = component
    if merged.any():
        volume = _volume(rails, traffic, timed, topology)
        rails = _join(rails, topology, known, params.server_overlap_min, params.same_volume_min, volume, params)
    rails = _join(rails, topology, known, params.server_overlap_min, alike, together(rails, bins // 8), params)
    return _join(rails, topology, known, 0.0, params.unison_min, together(rails, 0), params)


def _join(
    component: Int32,
    topology: Topology,
    known: Sequence[JobState],
    least_overlap: float,
    least_alike: float,
    likeness: _Likeness,
    params: RecogniseParams,
) -> Int32:
    """Join components of one tenant whose servers overlap and that are alike enough.

    What was told apart for long stays apart, though it may step alike for a while; what was one job for long stays one
    unless its parts are far from alike: a slow GPU delays its own part first.
    """
    count = int(component.max()) + 1
    member = component >= 0
    similar = jaccard.overlap_matrix((component[member], topology.server[member]))
    tenant = np.zeros(count, dtype=np.int32)
    tenant[component[member]] = topology.tenant[member]
    together, apart = _told_before(component, known, params)
    may_join = (tenant[:, None] == tenant[None, :]) & ~apart
    left, right = np.nonzero(np.triu((similar >= least_overlap) & may_join, k=1))
    needed = np.where(together[left, right], params.parting_share * least_alike, least_alike)
    alike = likeness(left, right) >= needed
    joined = components(count, left[alike].astype(np.int32), right[alike].astype(np.int32))
    job = component.copy()
    job[member] = joined[component[member]]
    return job


def _volume(component: Int32, traffic: Traffic, timed: Traffic, topology: Topology) -> _Likeness:
    """Compare components by what each server sends a second in them, where one of the two shows no activity in time.

    Their likeness is what both have of it over what either has, 0 where both show activity.
    """
    servers = len(topology.server_names)
    of_pair = component[traffic.pair_src].astype(np.int64)
    volume = np.bincount(
        of_pair * servers + topology.server[traffic.pair_src],
        weights=traffic.rate_bytes_s(),
        minlength=(int(component.max()) + 1) * servers,
    ).reshape(-1, servers)
    is_timed = np.bincount(component[timed.src], minlength=len(volume)) > 0

    def likeness(left: Int64, right: Int64) -> Float64:
        alike = np.zeros(len(left))
        for row in np.flatnonzero(~(is_timed[left] & is_timed[right])).tolist():
            one, other = volume[left[row]], volume[right[row]]
            alike[row] = np.minimum(one, other).sum() / np.maximum(one, other).sum()
        return alike

    return likeness


def _co_activity(owner: Int32, traffic: Traffic, left: Int64, right: Int64, bins: int, lags: int) -> Float64:
    """Return how much alike the payload of each listed pair of components comes and goes, float64[pairs], at most 1.

    Parameters: `owner` int32[n], the component of each burst; `left`, `right`, the pairs; `lags`, in bins either way.
    It is their largest cross-correlation over the time that both are seen, at such lags: stages of a job may reduce
    their gradients at different moments of a step, but always at the same distance. 0 where a component has no burst.
    """
    order = np.argsort(owner, kind="stable")
    last = int(max(left.max(initial=-1), right.max(initial=-1)))
    edges = np.searchsorted(owner[order], np.arange(last + 2))
    bursts = [traffic.take(order[low:high]) for low, high in pairwise(edges)]
    best = np.zeros(len(left))
    for row, (one, other) in enumerate((bursts[a], bursts[b]) for a, b in zip(left, right, strict=True)):
        if len(one) == 0 or len(other) == 0:
            continue
        begin = max(int(one.start_ns.min()), int(other.start_ns.min()))
        end = min(int(one.end_ns.max()), int(other.end_ns.max()))
        if begin < end:
            spectra = [_activity_spectrum(part, begin, end, bins) for part in (one, other)]
            correlation = fft.irfft(spectra[0] * np.conj(spectra[1]), n=2 * bins)
            best[row] = max(correlation[: lags + 1].max(), correlation[2 * bins - lags :].max(initial=-1.0))
    return best


def _activity_spectrum(bursts: Traffic, begin: int, end: int, bins: int) -> Complex128:
    """Return the Fourier transform of a component's activity in [begin, end), zero-padded."""
    spectrum: Complex128 = fft.rfft(_activity(bursts, begin, end, bins), n=2 * bins)
    return spectrum


def _activity(bursts: Traffic, begin: int, end: int, bins: int) -> Float64:
    """Return payload over time in [begin, end), its mean removed, of unit norm, float64[bins].

    A burst's payload is spread evenly over the bins from its start to its end, and a bin to either side.
    """
    inside = bursts.take((bursts.end_ns >= begin) & (bursts.start_ns <= end))
    first, last = (
        np.clip((edge - begin) * bins // (end - begin), 0, bins - 1) for edge in (inside.start_ns, inside.end_ns)
    )
    first, last = np.maximum(first - 1, 0), np.minimum(last + 1, bins - 1)
    rate = inside.payload / (last - first + 1)
    change = np.bincount(first, weights=rate, minlength=bins + 1) - np.bincount(
        last + 1, weights=rate, minlength=bins + 1
    )
    series = np.cumsum(change[:bins])
    series -= series.mean()
    activity: Float64 = series / (np.linalg.norm(series) or 1.0)
    return activity


def _identify(
    job: Int32, traffic: Traffic, topology: Topology, known: Sequence[JobState], params: RecogniseParams
) -> list[RecognisedJob]:
    """Give each found job the identity of the known job it continues, or a new one."""
    numbers = np.unique(job[job >= 0])
    members = [np.flatnonzero(job == number).astype(np.int32) for number in numbers]
    claims = sorted(
        (
            (shared, -row, state.job.job_id)
            for row, endpoints in enumerate(members)
            for state in known
            if state.job.tenant == _tenant(endpoints, topology)
            and (shared := len(np.intersect1d(endpoints, state.members.endpoint, assume_unique=True)))
            >= params.identity_min * min(len(endpoints), len(state.members))
            and shared > 0
        ),
        reverse=True,
    )
    identity: dict[int, str] = {}
    for _, row, job_id in claims:
        if -row not in identity and job_id not in identity.values():
            identity[-row] = job_id
    found, taken = [], {state.job.job_id for state in known}
    for row, endpoints in enumerate(members):
        tenant = _tenant(endpoints, topology)
        job_id = identity.get(row) or _new_identity(tenant, endpoints, traffic, topology, taken)
        taken.add(job_id)
        found.append(RecognisedJob(job_id, tenant, endpoints, row in identity))
    return sorted(found, key=lambda j: (-len(j.endpoints), j.job_id))


def _tenant(endpoints: Int32, topology: Topology) -> str:
    """Name the tenant of a job's endpoints; edges never cross tenants."""
    return topology.tenant_names[int(topology.tenant[endpoints[0]])]


def _new_identity(tenant: str, endpoints: Int32, traffic: Traffic, topology: Topology, taken: set[str]) -> str:
    """Derive a job's name from what it is first seen as: the same flows give the same name.

    What parts from a job that goes on under the name once given to these endpoints takes another.
    """
    first_ns = int(traffic.start_ns[np.isin(traffic.src, endpoints)].min())
    text = "\n".join([tenant, str(first_ns), *(topology.endpoints[e] for e in endpoints)])
    while (name := "job-" + blake2b(text.encode(), digest_size=5).hexdigest()) in taken:
        text += "\n"
    return name
