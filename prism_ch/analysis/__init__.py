"""The analysis of a window: pure functions, one layer a folder, each layer building on those below it."""
