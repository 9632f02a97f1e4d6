"""Spread what is computed for a window over other machines, by dask.distributed (the extra `cluster`).

Nothing here is imported unless the settings name a scheduler, or a worker is started: the extra may be missing.
"""
