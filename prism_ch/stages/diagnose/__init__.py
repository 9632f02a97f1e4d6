"""Diagnose: what slows a job, across its steps, its data-parallel groups and the switches (LLMPrism, section V).

And what can't be told of it, because records are too coarse.
"""

from prism_ch.stages.diagnose.episode import below_slow_steps, carry_on
from prism_ch.stages.diagnose.groups import find_slow_groups
from prism_ch.stages.diagnose.steps import find_slow_steps
from prism_ch.stages.diagnose.switches import find_slow_switches
from prism_ch.stages.diagnose.telemetry import find_merged_records, steps_told

__all__ = [
    "below_slow_steps",
    "carry_on",
    "find_merged_records",
    "find_slow_groups",
    "find_slow_steps",
    "find_slow_switches",
    "steps_told",
]
