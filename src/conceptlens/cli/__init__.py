"""The command line."""

from conceptlens.cli.entry import main

__all__ = ["main"]
