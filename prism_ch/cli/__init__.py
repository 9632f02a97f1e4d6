"""The command line: each command parses its arguments, calls one function of the layers below, and prints."""

from prism_ch.cli.root import main

__all__ = ["main"]
