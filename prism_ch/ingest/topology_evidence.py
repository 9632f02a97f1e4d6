"""What traffic shows of endpoints' places: the exporter that sees an endpoint first, and labels that peers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from prism_ch.core.pairs import links_of
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params.shared import SharedParams

#: Share of the others that must agree before one that does not is taken to be wrong.
NEARLY_ALL = SharedParams().nearly_all
#: Share of the bytes of both ends that makes a pair one of training: a ring's hop carries about half of them, and reads
#: of storage, monitoring and stray flows a few percent.
_SHARE = 1 - NEARLY_ALL


@dataclass(frozen=True, slots=True)
class PairTraffic:
    """Bytes of directed pairs, and which exporters saw them.

    `src`, `dst`: int64[pairs], rows of the topology, -1 if unknown; `bytes`: float64[pairs], those of the exporter that
    saw most. `pair`, `exporter`: int64[sightings], `seen_bytes`: float64[sightings]; `exporters` are their names.
    `volume`: float64[rows], bytes sent and received.
    """

    src: Int64
    dst: Int64
    bytes: Float64
    pair: Int64
    exporter: Int64
    seen_bytes: Float64
    exporters: tuple[str, ...]
    volume: Float64


@dataclass(frozen=True, slots=True)
class Homes:
    """The leaf of each exporter, and the endpoints whose leaf is another than their exporter's.

    `leaf_of`: int64[exporters], -1 if unknown; `exporter`: int64[rows], the one that sees most of what the endpoint
    sends; `strays`: bool[rows]; `has_exporter`: bool[leaves].
    """

    leaf_of: Int64
    exporter: Int64
    strays: Bool
    has_exporter: Bool


@dataclass(frozen=True, slots=True)
class Crossings:
    """Traffic between endpoints of different labels.

    `misfits` maps a row to the label of nearly all of its peers; `pairs` are all crossing pairs of training, largest
    first. `is_rule` is true if nearly all traffic that touches no misfit keeps to its label.
    """

    misfits: dict[int, int]
    pairs: list[tuple[int, int]]
    is_rule: bool


def pair_traffic(endpoints: Sequence[str], table: pa.Table) -> PairTraffic:
    """Build pairs of the topology's rows from traffic.

    Parameters: `table` has src_addr, dst_addr, exporter and bytes.
    """
    number = {name: row for row, name in enumerate(endpoints)}
    names: dict[str, Int64] = {}
    for column in ("src_addr", "dst_addr"):
        encoded = table[column].combine_chunks().dictionary_encode()
        rows = np.array([number.get(name, -1) for name in encoded.dictionary.to_pylist()], dtype=np.int64)
        names[column] = rows[encoded.indices.to_numpy(zero_copy_only=False)]
        names[f"{column}_code"] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    exporters = table["exporter"].combine_chunks().dictionary_encode()
    code = names["src_addr_code"] * (int(names["dst_addr_code"].max()) + 1) + names["dst_addr_code"]
    _, first, pair = np.unique(code, return_index=True, return_inverse=True)
    seen_bytes = table["bytes"].to_numpy().astype(np.float64)
    most = np.zeros(len(first))
    np.maximum.at(most, pair, seen_bytes)
    src, dst = names["src_addr"][first], names["dst_addr"][first]
    volume = np.zeros(len(endpoints))
    for end in (src, dst):
        np.add.at(volume, end[end >= 0], most[end >= 0])
    exporter = exporters.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return PairTraffic(src, dst, most, pair, exporter, seen_bytes, tuple(exporters.dictionary.to_pylist()), volume)


def find_homes(leaf: Int64, leaves: Sequence[str], seen: PairTraffic) -> Homes:
    """Find the leaf of each exporter, and the endpoints that do not fit.

    1. Endpoints count that send a share of what endpoints send on average: of fewer records all may have been lost.
    2. An exporter that sees nearly all that an endpoint sends may be its first hop: a switch further on sees a part.
    3. An exporter is the leaf of its name, else the leaf of most endpoints of which it may be the first hop.
    4. An endpoint fits if an exporter of its leaf sees half of what it sends, as records may be lost. One that does not
       is a stray if nearly all others fit.
    5. If nearly all exporters are named as leaves, endpoints of an exporter that is not are strays too.
    """
    rows = len(leaf)
    endpoint, exporter, share = _sightings(rows, seen)
    most = np.full(rows, -1, dtype=np.int64)
    order = np.argsort(share, kind="stable")
    most[endpoint[order]] = exporter[order]
    known = leaf[endpoint] >= 0
    endpoint, exporter, share = endpoint[known], exporter[known], share[known]
    near = share >= NEARLY_ALL
    code = {name: number for number, name in enumerate(leaves)}
    named = np.array([code.get(name, -1) for name in seen.exporters], dtype=np.int64)
    leaf_of = np.where(
        named >= 0, named, _majority(exporter[near], leaf[endpoint[near]], len(seen.exporters), len(leaves))
    )
    home = leaf_of[exporter]
    judged, fits = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    judged[endpoint[near & (home >= 0)]] = True
    fits[endpoint[(home == leaf[endpoint]) & (share >= 0.5)]] = True
    strays = judged & ~fits
    others = int(fits.sum()) + _mistakes(leaf[strays], leaf_of[most[strays]]) - 1
    strays &= others > 1 and bool(fits.sum() >= NEARLY_ALL * others)
    used = np.unique(exporter[near])
    has_exporter = np.zeros(len(leaves), dtype=np.bool_)
    has_exporter[leaf_of[used[leaf_of[used] >= 0]]] = True
    by_name = used[named[used] >= 0]
    unnamed = used[(named[used] < 0) & (leaf_of[used] >= 0) & ~np.isin(leaf_of[used], named[by_name])]
    if len(by_name) > 1 and len(by_name) >= NEARLY_ALL * (len(by_name) + len(unnamed) - 1):
        has_exporter[leaf_of[unnamed]] = False
        strays |= np.isin(leaf, leaf_of[unnamed]) & judged
    return Homes(leaf_of, most, strays, has_exporter)


def _mistakes(leaf: Int64, home: Int64) -> int:
    """Count the mistakes behind endpoints that are seen at another leaf than theirs.

    An exchange of two is one.
    """
    moves = Counter(zip(leaf.tolist(), home.tolist(), strict=True))
    exchanged = sum(number == 1 and moves.get((there, here)) == 1 for (here, there), number in moves.items())
    return len(leaf) - exchanged // 2


def _sightings(rows: int, seen: PairTraffic) -> tuple[Int64, Int64, Float64]:
    """Return the share of what each endpoint sends that each exporter sees.

    Returns endpoint and exporter, int64[n] each, and share, float64[n]; without endpoints that send little.
    """
    count, sender = len(seen.exporters), seen.src[seen.pair]
    sent = np.bincount(seen.src[seen.src >= 0], weights=seen.bytes[seen.src >= 0], minlength=rows)
    sends = sent >= _SHARE * (float(sent[sent > 0].mean()) if (sent > 0).any() else 0.0)
    known = (sender >= 0) & np.array([bool(name) for name in seen.exporters], dtype=np.bool_)[seen.exporter]
    known &= sends[sender]
    keys, inverse = np.unique(sender[known] * count + seen.exporter[known], return_inverse=True)
    endpoint, exporter = np.divmod(keys, count)
    seen_bytes = np.bincount(inverse, weights=seen.seen_bytes[known], minlength=len(keys))
    return endpoint, exporter, seen_bytes / np.maximum(sent[endpoint], 1.0)


def _majority(group: Int64, label: Int64, groups: int, labels: int) -> Int64:
    """Return the label of more than half of a group's members, int64[groups].

    It is -1 if no label has so many.
    """
    found = np.full(groups, -1, dtype=np.int64)
    keys, number = np.unique(group * max(labels, 1) + label, return_counts=True)
    of, most = np.divmod(keys, max(labels, 1))
    is_most = number * 2 > np.bincount(group, minlength=groups)[of]
    found[of[is_most]] = most[is_most]
    return found


def find_crossings(label: Int64, server: Int64, seen: PairTraffic) -> Crossings:
    """Find endpoints whose peers have another label, and pairs that cross labels.

    Parameters: `label`, int64[rows], -1 if unknown; `server`, int64[rows].

    1. Pairs count that carry a share of both ends' bytes.
    2. A misfit crosses with nearly all its bytes, to one label, and clearly more of them than any of its peers: of two
       that have only each other either may be wrong.
    """
    low, high, moved = _training_pairs(server, seen, label >= 0)
    rows, labels = len(label), int(label.max(initial=0)) + 1
    one, peer, twice = np.concatenate([low, high]), np.concatenate([high, low]), np.concatenate([moved, moved])
    total = np.bincount(one, weights=twice, minlength=rows)
    off = label[one] != label[peer]
    one, peer, twice = one[off], peer[off], twice[off]
    crossing = np.bincount(one, weights=twice, minlength=rows)
    strongest = np.zeros(rows)
    np.maximum.at(strongest, one, crossing[peer])
    keys, where = np.unique(one * labels + label[peer], return_inverse=True)
    row, name = np.divmod(keys, labels)
    is_nearly_all = np.bincount(where, weights=twice, minlength=len(keys)) >= NEARLY_ALL * total[row]
    other = np.full(rows, -1, dtype=np.int64)
    other[row[is_nearly_all]] = name[is_nearly_all]
    misfit = (other >= 0) & (NEARLY_ALL * crossing > strongest)
    clean = ~misfit[low] & ~misfit[high]
    kept, left = (float(moved[clean & which].sum()) for which in (label[low] == label[high], True))
    is_rule = kept > 0 and kept >= NEARLY_ALL * left and int(misfit.sum()) * 2 < int((total > 0).sum())
    across = np.flatnonzero(label[low] != label[high])
    across = across[np.argsort(-moved[across], kind="stable")]
    pairs = list(zip(low[across].tolist(), high[across].tolist(), strict=True))
    return Crossings({int(each): int(other[each]) for each in np.flatnonzero(misfit)}, pairs, is_rule)


def _training_pairs(server: Int64, seen: PairTraffic, usable: Bool) -> tuple[Int64, Int64, Float64]:
    """Pick the pairs that carry a share of both ends' bytes.

    The ends are usable rows on different servers, and carry a share of what endpoints carry on average.
    Returns both ends, int64[n] each, and bytes, float64[n].
    """
    both = (seen.src >= 0) & (seen.dst >= 0)
    src, dst = seen.src[both], seen.dst[both]
    links = links_of(src, dst)
    low, high = links.low.astype(np.int64), links.high.astype(np.int64)
    moved = np.bincount(links.of_pair, weights=seen.bytes[both], minlength=len(low))
    active = seen.volume[seen.volume > 0]
    enough = _SHARE * (float(active.mean()) if len(active) else 0.0)
    trains = (server[low] != server[high]) & usable[low] & usable[high]
    for end in (low, high):
        trains &= (seen.volume[end] >= enough) & (moved >= _SHARE * seen.volume[end])
    return low[trains], high[trains], moved[trains]
