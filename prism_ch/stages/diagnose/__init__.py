"""Diagnose: what slows a job, across its steps, its data-parallel groups and the switches (LLMPrism, section V)."""

from prism_ch.stages.diagnose.episode import below_slow_steps, carry_on
from prism_ch.stages.diagnose.groups import find_slow_groups
from prism_ch.stages.diagnose.steps import find_slow_steps
from prism_ch.stages.diagnose.switches import find_slow_switches

__all__ = ["below_slow_steps", "carry_on", "find_slow_groups", "find_slow_steps", "find_slow_switches"]
