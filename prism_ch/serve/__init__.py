"""The HTTP endpoint of the service."""
