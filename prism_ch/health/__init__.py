"""How the service stands: what is looked at, what it means, and how to mend it."""
