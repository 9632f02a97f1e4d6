"""Fuzzing: damaged files, names and statements, for a given time; every failure can be repeated by its seed."""
