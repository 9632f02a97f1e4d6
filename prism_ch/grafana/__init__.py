"""What prism-ch gives to a Grafana: dashboards, and the means to check what their queries answer."""
