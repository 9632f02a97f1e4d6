"""prism-ch: what slows LLM training jobs, read from network flow records in ClickHouse."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    """Look up `__version__` when it is asked for. Most commands never do, and it takes 20 ms."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415 - what takes the time

    return version("prism-ch")
