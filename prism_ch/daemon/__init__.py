"""Runs the schedule around the clock: lands what appears in the spool, and works windows as they close."""
