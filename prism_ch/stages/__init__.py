"""The analysis, one verb a module: pure functions of their inputs and parameters."""
