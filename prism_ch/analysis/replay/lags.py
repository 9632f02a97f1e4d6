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
        cells = np.arange(self.binding.size)
        bound: Float64 = self.lag.reshape(len(self.lag), -1)[self.binding.ravel(), cells]
        return bound.reshape(self.binding.shape)


def find_lags(
    at: Float64, sources: Float64, speed: Float64, params: ReplayParams, plain: Float64 | None = None
) -> list[Lags]:
    """Find the lags of moments after each of their sources.

    All have as many sources.

    Parameters: `at` float64[n, u, k], when they take place on ranks that do the same; `sources` float64[n, s, u, k],
    when what they wait for does; `speed` float64[u, k], how many times longer than usual a rank computes; `plain`
    float64[n, s], how long the computing after each source takes where it takes least; without, no source has a lag of
    its own.

    1. Suppose that the lag is the same after each source: the least time that passes after the last of them.
    2. Where moments come later than that explains, something is computed after one source that is not after others,
       and shows in no message: it is the source after which those moments come most regularly.
    3. Go back to 2 until most moments are explained.
    4. A lag that binds is what was measured. Any other differs from it by what is usual, as the same is computed after
       each source, and as far as the moment leaves room for it.
    """
    room = at[:, None] - sources
    passed = room / speed
    after_last = passed.min(axis=1).reshape(len(at), -1)
    least = robust.known_or(robust.quantile_of_rows(after_last, params.least_quantile))[:, None]
    close = np.asarray(np.abs(after_last - least) <= params.explained * np.abs(least))
    middle = robust.known_or(robust.median(np.where(close, after_last, np.nan), axis=1))[:, None]
    usual = np.broadcast_to(np.where(close.any(axis=1, keepdims=True), middle, least), sources.shape[:2])
    if plain is not None and sources.shape[1] > 1:
        usual = _with_own(passed, np.minimum(plain, usual), params)
    takes = usual[:, :, None, None]
    binding = np.argmin(passed - takes, axis=1)
    bound, usually = (
        np.take_along_axis(np.broadcast_to(each, room.shape), binding[:, None], axis=1) for each in (room, takes)
    )
    lag = np.minimum(np.maximum(np.rint(bound + (takes - usually) * speed), 0.0), room)
    np.put_along_axis(lag, binding[:, None], bound, axis=1)
    return [Lags(*each) for each in zip(lag, usual, binding, strict=True)]


def _with_own(passed: Float64, plain: Float64, params: ReplayParams) -> Float64:
    """Return usual lags, float64[n, s], with lags of their own where those explain more."""
    usual, own, going = plain.copy(), np.zeros(plain.shape, dtype=bool), np.arange(len(plain))
    enough = max(params.left_share * passed[0, 0].size, params.min_count)
    for _ in range(plain.shape[1]):
        least = params.explained * usual[going].max(axis=1).clip(min=0.0)
        left: Bool = (passed[going] - usual[going, :, None, None]).min(axis=1) > least[:, None, None]
        unexplained = np.count_nonzero(left, axis=(1, 2)) >= enough
        going, left = going[unexplained], left[unexplained]
        if not len(going):
            break
        after = np.where(left[:, None], passed[going], np.nan).reshape(len(going), plain.shape[1], -1)
        centre = robust.median(after, axis=2)
        spread = robust.median(np.abs(after - centre[:, :, None]), axis=2)
        relative = spread / np.maximum(centre, 1.0)
        # What is computed after a source takes its time in all steps: none of them comes before that.
        sooner = passed[going] < (1 - params.explained) * centre[:, :, None, None]
        never = np.count_nonzero(sooner, axis=(2, 3)) < enough
        # Of a queue of inputs the first that a rank falls behind with counts, whose spread is that of all after it.
        judged = np.where(own[going] | ~never, np.inf, relative if plain.shape[1] >= _QUEUE else spread)
        best = (np.arange(len(going)), np.argmin(judged, axis=1))
        regular: Bool = never[best] & ~(relative[best] > params.regular)
        going, best = going[regular], (best[0][regular], best[1][regular])
        usual[going, best[1]], own[going, best[1]] = centre[best], True
    return usual
