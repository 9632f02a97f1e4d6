"""Provisions a Grafana with the shipped dashboards and alert rules, and checks both."""
