"""How a job goes on from window to window: its identity, its known steps, its published rows."""
