"""Fuzzing: damaged files, names and journals, for a given time; every failure can be repeated by its seed."""
