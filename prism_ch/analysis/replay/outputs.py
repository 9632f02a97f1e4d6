"""What a pipeline stage makes in turn: outputs of inputs, and operations between them that send nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from prism_ch.analysis.diagnose.compute.between_messages import find_needs, operation_ns
from prism_ch.core import robust
from prism_ch.model.columns import Float64
from prism_ch.model.params import ComputeTimeParams


class Input(NamedTuple):
    """The n-th message that comes by a link."""

    link: tuple[int, int]
    number: int


class Output(NamedTuple):
    """The n-th message that goes by a link, and the inputs that are used up by then and were not before.

    An operation that sends nothing stands as an output of a stage to itself. If it can't be seen at all, `takes` says
    how long a unit of usual speed computes for it.
    """

    link: tuple[int, int]
    number: int
    inputs: tuple[Input, ...]
    takes: float = 0.0


def usual_moments(values: Float64) -> Float64:
    """Return when each message usually is, float64[n], of moments float64[u, k, n]."""
    return robust.median(values.reshape(-1, values.shape[2]), axis=0)


def in_order(sent: Mapping[tuple[int, int], Float64]) -> list[tuple[tuple[int, int], int]]:
    """List the outputs of a stage as they are sent usually: links and numbers.

    Parameters: `sent` float64[u, k, n] by link.
    """
    moments = ((link, usual_moments(values)) for link, values in sent.items())
    order = sorted((at, link, n) for link, each in moments for n, at in enumerate(np.nan_to_num(each).tolist()))
    return [(link, number) for _, link, number in order]


def find_outputs(
    stage: int,
    sent: Mapping[tuple[int, int], Float64],
    arrived: Mapping[tuple[int, int], Float64],
    params: ComputeTimeParams,
) -> tuple[Output, ...]:
    """Put outputs in order, each with the inputs it uses up.

    Parameters: moments of outputs and of inputs, float64[u, k, n] by link.
    """
    least = params.half * operation_ns(list(sent.values()), params) if sent else 0.0
    needs = {
        (to, source): find_needs(values - least, come, (), params)
        for to, values in sent.items()
        for source, come in arrived.items()
    }
    used, answers = dict.fromkeys(arrived, -1), _answers(sent, arrived, params)
    outputs = []
    for link, number in in_order(sent):
        fed = (2 * stage - link[1], stage)  # what goes on comes from the other side
        if answers:
            [fed] = arrived
        in_turn = fed in arrived and arrived[fed].shape == sent[link].shape
        inputs: list[Input] = []
        for source in (fed,) if in_turn else tuple(arrived):
            found = needs[link, source]
            until = number if in_turn else found[number] if found else -1
            since = number if in_turn else used[source] + 1
            inputs += [Input(source, one) for one in range(since, until + 1)]
            used[source] = max(used[source], until)
        outputs.append(Output(link, number, tuple(inputs)))
    return tuple(outputs)


def unused(outputs: Iterable[Output], arrived: Mapping[tuple[int, int], Float64]) -> tuple[Input, ...]:
    """Return the inputs that come after the last that some output uses up."""
    used = dict.fromkeys(arrived, -1)
    for one in outputs:
        for each in one.inputs:
            used[each.link] = max(used[each.link], each.number)
    return tuple(Input(link, n) for link, come in arrived.items() for n in range(used[link] + 1, come.shape[2]))


def _answers(
    sent: Mapping[tuple[int, int], Float64], arrived: Mapping[tuple[int, int], Float64], params: ComputeTimeParams
) -> bool:
    """Whether a last stage answers each input as it comes.

    Then the quickest answer takes no longer than goes by between two. If all inputs had to be there first, it would
    take that and the forward of all microbatches, half of an answer's backward each.
    """
    if len(sent) != 1 or len(arrived) != 1:
        return False
    [out], [come] = sent.values(), arrived.values()
    if out.shape != come.shape or out.shape[2] < params.slow_steps:
        return False
    quickest = usual_moments(out - come).min()
    return bool(0 < quickest <= (1 + params.half) * robust.median(np.diff(out, axis=2)))
