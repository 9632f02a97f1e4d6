"""prism-ch: what slows LLM training jobs, read from network flow records in ClickHouse."""

from importlib.metadata import version

__version__ = version("prism-ch")
