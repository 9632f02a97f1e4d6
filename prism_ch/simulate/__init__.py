"""Flow records of training jobs whose truth is known, for tests, benchmarks and demonstrations."""

from prism_ch.simulate.draws import textbook
from prism_ch.simulate.generate import Simulation, generate, write
from prism_ch.simulate.scenario import Scenario

__all__ = ["Scenario", "Simulation", "generate", "textbook", "write"]
