"""How right findings are: faults injected into runs of many families and sizes, and healthy runs of all families."""
