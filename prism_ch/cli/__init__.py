"""The command line: commands parse their arguments, call the layers below, and print."""

from prism_ch.cli.root import main

__all__ = ["main"]
