"""Every threshold and prior of the analysis, one file a layer, each with its meaning, its unit and its reason.

None of them but confidence is fitted to a data set: they are ratios, counts of repetitions, or physical sizes with a
source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from prism_ch.model.params.confidence import ConfidenceParams
from prism_ch.model.params.diagnose import ComputeTimeParams, DiagnoseParams, StopParams, TimePerByteParams
from prism_ch.model.params.incidents import IncidentParams
from prism_ch.model.params.jobs import RecogniseParams
from prism_ch.model.params.observe import ClockParams, MergedParams, ObserveParams, TimeoutParams
from prism_ch.model.params.replay import ReplayParams
from prism_ch.model.params.roles import IdentifyParams
from prism_ch.model.params.steps import ContinueParams, DivideParams

__all__ = [
    "ClockParams",
    "ComputeTimeParams",
    "ConfidenceParams",
    "ContinueParams",
    "DiagnoseParams",
    "DivideParams",
    "IdentifyParams",
    "IncidentParams",
    "MergedParams",
    "ObserveParams",
    "Params",
    "RecogniseParams",
    "ReplayParams",
    "StopParams",
    "TimePerByteParams",
    "TimeoutParams",
]


@dataclass(frozen=True, slots=True)
class Params:
    """All parameters of the analysis."""

    clocks: ClockParams = field(default_factory=ClockParams)
    observe: ObserveParams = field(default_factory=ObserveParams)
    timeouts: TimeoutParams = field(default_factory=TimeoutParams)
    merged: MergedParams = field(default_factory=MergedParams)
    recognise: RecogniseParams = field(default_factory=RecogniseParams)
    identify: IdentifyParams = field(default_factory=IdentifyParams)
    divide: DivideParams = field(default_factory=DivideParams)
    diagnose: DiagnoseParams = field(default_factory=DiagnoseParams)
    stops: StopParams = field(default_factory=StopParams)
    confidence: ConfidenceParams = field(default_factory=ConfidenceParams)
    incident: IncidentParams = field(default_factory=IncidentParams)
    replay: ReplayParams = field(default_factory=ReplayParams)
    going_on: ContinueParams = field(default_factory=ContinueParams)

    def digest(self) -> int:
        """Return 64 bits that change with any parameter: results of other parameters are other results."""
        return int.from_bytes(blake2b(repr(self).encode(), digest_size=8).digest(), "little")
