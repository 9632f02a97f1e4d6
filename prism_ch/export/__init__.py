"""Exports what the database holds of a job to files that other programs open."""
