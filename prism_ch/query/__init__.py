"""Answers SQL of operators and tenants: checks it, runs it read-only, returns the result in any format."""
