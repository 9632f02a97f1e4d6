"""A Grafana for tests, written from the recordings of a real one in tests/data/grafana."""
