"""Array algorithms over numpy and scipy: they know arrays, not jobs, and touch no file, clock or random number."""
