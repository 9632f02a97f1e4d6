"""Where a stage computes what it sends to nobody, as the outputs around it tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import ReplayParams

#: Stands for a weight gradient in a sequence of operations; others are numbers of inputs.
WEIGHT = -1


@dataclass(frozen=True, slots=True)
class Visible:
    """The outputs of a stage in order, as they usually are.

    float64[n], in nanoseconds: `at`, when each is sent; `since`, when the input it is made of arrives, -inf for none;
    `takes`, how long it is computed. `least`, `most` int64[n] bound how many operations that send nothing come before
    it. `is_backward` bool[n] masks those after which a weight gradient is due. `begin` is since when the stage may
    compute, `end` when it has computed all, NaN where nothing shows that.
    """

    at: Float64
    since: Float64
    takes: Float64
    least: Int64
    most: Int64
    is_backward: Bool
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Hidden:
    """Operations of a stage that send nothing.

    `since` float64[n], when the input of each arrives, in order; `takes`, how long each computes; `weights`, how long a
    weight gradient does: 0 where backwards are not split. So many of them are `kept` back until all outputs are sent.
    """

    since: Float64
    takes: float
    weights: float = 0.0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class _Path:
    """A way to have come as far: how many operations and weight gradients are done, and `left`, time unexplained."""

    done: int
    weights: int
    left: float
    before: _Path | None
    operations: tuple[int, ...]

    def all_operations(self) -> list[tuple[int, ...]]:
        found, path = [self.operations], self.before
        while path is not None:
            found.append(path.operations)
            path = path.before
        return found[-2::-1]


def place_hidden(visible: Visible, hidden: Hidden, params: ReplayParams) -> list[tuple[int, ...]]:
    """Find what a stage computes before each of its outputs, and after the last.

    Returns the operations before each in order, numbers of `hidden` or WEIGHT, and last those after all outputs.

    1. Operations come in the order of their inputs. Try all numbers of them before each output, and go on from the
       best way to each number (Viterbi): that which leaves least time unexplained.
    2. A weight gradient is computed where a stage sends nothing for as long, once its backward is done: that is what
       backwards are split for.
    """
    if not (len(hidden.since) or visible.least.any() or visible.most.any()):
        return _place_weights(visible, hidden, params)
    paths = {0: _Path(0, 0, 0.0, None, ())}
    backwards = np.concatenate([[0], np.cumsum(visible.is_backward)])
    for place, at in enumerate(visible.at.tolist()):
        best: dict[int, _Path] = {}
        for path in paths.values():
            for one in _steps(path, visible, hidden, place, int(backwards[place]), at, params):
                if one.done not in best or one.left < best[one.done].left:
                    best[one.done] = one
        paths = best
    last = [_finish(path, visible, hidden, int(backwards[-1]), params) for path in paths.values()]
    return min(last, key=lambda path: path.left).all_operations()


def _place_weights(visible: Visible, hidden: Hidden, params: ReplayParams) -> list[tuple[int, ...]]:
    """Place weight gradients alone: there is one way to do so."""
    free, due, found = visible.begin, 0, list[tuple[int, ...]]()
    for at, takes, is_backward in zip(
        visible.at.tolist(), visible.takes.tolist(), visible.is_backward.tolist(), strict=True
    ):
        _, filled = _fill(free, at - takes, due, hidden, params)
        found.append((WEIGHT,) * filled)
        free, due = at, due - filled + is_backward
    return [*found, (WEIGHT,) * due if hidden.weights else ()]


def _steps(
    path: _Path, visible: Visible, hidden: Hidden, place: int, backwards: int, at: float, params: ReplayParams
) -> Iterator[_Path]:
    """Yield the ways on to an output. At least that with as many operations as it needs."""
    before = float(visible.at[place - 1]) if place else visible.begin
    least = max(path.done, int(visible.least[place]))
    for done in range(least, max(int(visible.most[place]), least) + 1):
        numbers = range(path.done, done)
        ready, weights, operations = _compute(before, numbers, backwards, path.weights, hidden, params)
        start = at - float(visible.takes[place])
        ready, filled = _fill(ready, start, backwards + done - weights, hidden, params)
        # What a step begins with is not known, and explains nothing.
        left = start - max(ready, float(visible.since[place])) if place else 0.0
        if done > least and left < -params.put_off * hidden.takes:
            break
        # Of two ways that explain as much, the likelier is that on which work waits for less long.
        waiting = int(np.searchsorted(hidden.since, start - hidden.takes)) - done
        cost = abs(left) + params.waiting * max(waiting, 0) * hidden.takes
        yield _Path(done, weights + filled, path.left + cost, path, operations + (WEIGHT,) * filled)


def _finish(path: _Path, visible: Visible, hidden: Hidden, backwards: int, params: ReplayParams) -> _Path:
    """Compute what is left after the last output."""
    before = float(visible.at[-1]) if len(visible.at) else visible.begin
    numbers = range(path.done, len(hidden.since))
    ready, weights, operations = _compute(before, numbers, backwards, path.weights, hidden, params)
    rest = backwards + len(hidden.since) - weights if hidden.weights else 0
    ready += rest * hidden.weights
    cost = 0.0 if np.isnan(visible.end) else abs(visible.end - ready)
    return _Path(len(hidden.since), weights + rest, path.left + cost, path, operations + (WEIGHT,) * rest)


def _compute(
    before: float, numbers: range, backwards: int, weights: int, hidden: Hidden, params: ReplayParams
) -> tuple[float, int, tuple[int, ...]]:
    """Compute operations one after the other. Returns when they are done, weight gradients so far, and what was."""
    operations: tuple[int, ...] = ()
    for number in numbers:
        since = float(hidden.since[number])
        before, filled = _fill(before, since, backwards + number - weights, hidden, params)
        weights += filled
        before = max(before, since) + hidden.takes
        operations += (WEIGHT,) * filled + (number,)
    return before, weights, operations


def _fill(free: float, until: float, due: int, hidden: Hidden, params: ReplayParams) -> tuple[float, int]:
    """Fill idle time with the weight gradients that are due. Returns since when the stage is free, and how many fit."""
    if not hidden.weights or until <= free or due <= hidden.kept:
        return free, 0
    filled = min(int((until - free) / hidden.weights + params.fits), due - hidden.kept)
    return free + filled * hidden.weights, filled
