"""Runs the schedule: lands files of the spool, and analyses windows as they close."""
