"""Health checks: what was found, how bad it is, and how to mend it."""
