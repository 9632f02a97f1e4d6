"""Proves dashboards without a Grafana: their form, and what their queries answer on results of a made-up cluster."""
