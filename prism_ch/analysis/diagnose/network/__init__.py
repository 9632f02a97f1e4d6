"""NICs, links, switches and groups that take longer for their bytes."""
