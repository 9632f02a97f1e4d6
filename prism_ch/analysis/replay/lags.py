"""How long a moment comes after each of those that it waits for, as many steps and ranks show together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import ReplayParams

#: From this number of sources on they are a queue of inputs, and not what a rank did before and one input.
_QUEUE = 4


@dataclass(frozen=True, slots=True)
class Lags:
    """The lags of one moment of many ranks after its sources.

    `lag` float64[s, u, k]: the moment is the latest of its sources, each and its lag. `usual` float64[s] is the lag of
    a rank of usual speed; `binding` int64[u, k] is the source that it waited for.
    """

    lag: Float64
    usual: Float64
    binding: Int64

    def bound(self) -> Float64:
        """Return the lag after the source that was waited for, float64[u, k]."""
        return np.asarray(np.take_along_axis(self.lag, self.binding[None], axis=0)[0])


def find_lags(
    at: Float64, sources: Float64, speed: Float64, params: ReplayParams, plain: Float64 | None = None
) -> Lags:
    """Find the lags of a moment after each source.

    Parameters: `at` float64[u, k], when it takes place on ranks that do the same; `sources` float64[s, u, k], when what
    it waits for does; `speed` float64[u, k], how many times longer than usual a rank computes; `plain` float64[s], how
    long the computing after each source takes where it takes least; without, no source has a lag of its own.

    1. Suppose that the lag is the same after each source: the least time that passes after the last of them.
    2. Where moments come later than that explains, something is computed after one source that is not after others,
       and shows in no message: it is the source after which those moments come most regularly.
    3. Go back to 2 until most moments are explained.
    4. A lag that binds is what was measured; any other is the usual one, as far as the moment leaves room for it.
    """
    passed = (at - sources) / speed
    after_last = passed.min(axis=0)
    least = _finite(robust.quantile_of_rows(after_last.reshape(1, -1), params.least_quantile)[0])
    close = after_last[np.abs(after_last - least) <= params.explained * abs(least)]
    least = _finite(robust.median(close)) if len(close) else least
    usual = np.full(len(sources), least)
    if plain is not None:
        usual = _with_own(passed, np.minimum(plain, usual), params)
    binding = np.argmin(passed - usual[:, None, None], axis=0)
    room = at - sources
    lag = np.minimum(np.rint(usual[:, None, None] * speed), room)
    np.put_along_axis(lag, binding[None], np.take_along_axis(room, binding[None], axis=0), axis=0)
    return Lags(lag, usual, binding)


def _with_own(passed: Float64, plain: Float64, params: ReplayParams) -> Float64:
    """Return usual lags, float64[s], with lags of their own where those explain more."""
    usual, own = plain.copy(), np.zeros(len(passed), dtype=bool)
    for _ in range(len(passed)):
        left: Bool = (passed - usual[:, None, None]).min(axis=0) > params.explained * max(usual.max(), 0.0)
        if np.count_nonzero(left) < max(params.left_share * left.size, params.min_count) or own.all():
            break
        centre = robust.median(passed[:, left], axis=1)
        spread = robust.median(np.abs(passed[:, left] - centre[:, None]), axis=1)
        relative = spread / np.maximum(centre, 1.0)
        # Of a queue of inputs the first that a rank falls behind with counts, whose spread is that of all after it.
        judged = np.where(own, np.inf, relative if len(passed) >= _QUEUE else spread)
        best = int(np.argmin(judged))
        if relative[best] > params.regular:
            break
        usual[best], own[best] = centre[best], True
    return usual


def _finite(value: np.floating | float | Float64) -> float:
    return float(np.nan_to_num(value))
