"""Answers an operator's SQL: checks it, runs it read-only, writes the result in the format asked for."""
