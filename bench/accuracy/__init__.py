"""Results against known truth: recorded runs, and simulated ones with seeds of their own. Run with `make accuracy`."""
