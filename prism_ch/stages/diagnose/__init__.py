"""Diagnose: what slows a job, across its steps, its data-parallel groups and the switches (LLMPrism, section V).

Whether it stands still, and what can't be told of it, because records are too coarse or missing.
"""

from prism_ch.stages.diagnose.beside import with_storage
from prism_ch.stages.diagnose.congestion import tell_congestion
from prism_ch.stages.diagnose.episode import Place, carry_on, one_alarm
from prism_ch.stages.diagnose.life import Life, Slowness, find_slowness
from prism_ch.stages.diagnose.regimes import Moved
from prism_ch.stages.diagnose.restarts import find_restart, is_told, seems_to_begin_anew
from prism_ch.stages.diagnose.rests import find_rests, rests_of_all
from prism_ch.stages.diagnose.samples import with_sample_flows
from prism_ch.stages.diagnose.silence import Pace, Quiet, find_lost_exporters, find_silence, usual_pace
from prism_ch.stages.diagnose.steps import find_slow_steps
from prism_ch.stages.diagnose.stop_finding import carry_on_stops, is_same_stop, is_stop
from prism_ch.stages.diagnose.stops import StepsSeen, find_stops, not_slow
from prism_ch.stages.diagnose.suspects import Ways
from prism_ch.stages.diagnose.switches import join_slow_switches
from prism_ch.stages.diagnose.telemetry import find_merged_records, steps_told

__all__ = [
    "Life",
    "Moved",
    "Pace",
    "Place",
    "Quiet",
    "Slowness",
    "StepsSeen",
    "Ways",
    "carry_on",
    "carry_on_stops",
    "find_lost_exporters",
    "find_merged_records",
    "find_restart",
    "find_rests",
    "find_silence",
    "find_slow_steps",
    "find_slowness",
    "find_stops",
    "is_same_stop",
    "is_stop",
    "is_told",
    "join_slow_switches",
    "not_slow",
    "one_alarm",
    "rests_of_all",
    "seems_to_begin_anew",
    "steps_told",
    "tell_congestion",
    "usual_pace",
    "with_sample_flows",
    "with_storage",
]
