"""Makes Grafana's dashboards, checks them on a made-up cluster, and draws their previews."""
