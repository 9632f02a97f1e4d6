"""Pictures of the dashboards: their own queries' answers on a made-up cluster, drawn without a Grafana."""
