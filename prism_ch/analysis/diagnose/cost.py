"""Cost: how long a job's steps take, and what share of its time an episode loses."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.diagnose.episodes import Episode
from prism_ch.model.columns import Float64
from prism_ch.model.job import Division


def step_seconds(division: Division) -> Float64:
    """Return the duration of each step of the job but the first, whose beginning is not known, float64[k - 1]."""
    return np.diff(division.job_end_ns()) / 1e9


def lost_share(division: Division, episode: Episode, extra_s: float, min_steps_beside: int) -> float:
    """Return the share of the job's time that is lost in an episode, in 0..1.

    By the steps before and after it, where there are `min_steps_beside`; else by `extra_s`, the seconds that somebody
    loses in a step, which is the most it can be.
    """
    step_s = step_seconds(division)  # entry i is of step i + 1
    inside = np.zeros(division.steps, dtype=bool)
    inside[episode.first : episode.last + 1] = True
    during, beside = step_s[inside[1:]], step_s[~inside[1:]]
    if len(during) and len(beside) >= min_steps_beside:
        return float(np.clip(1 - np.median(beside) / np.median(during), 0, 1))
    return float(np.clip(extra_s / np.median(step_s), 0, 1))


def most_lost(division: Division, episode: Episode, extra_s: float) -> float:
    """Return which share of the steps of an episode `extra_s` seconds of each are, in 0..1."""
    during = step_seconds(division)[max(episode.first - 1, 0) : episode.last]
    return float(np.clip(extra_s / np.median(during), 0, 1)) if len(during) else 1.0
