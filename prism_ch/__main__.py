"""The program `prism-ch`, which is `python -m prism_ch` too: the command line in a process of its own."""

import sys
from importlib.abc import MetaPathFinder

from prism_ch.cli import main as run_command


class _WithoutPandas(MetaPathFinder):
    """Has pandas missing, which comes with the engine.

    With its first array pyarrow loads it to know its types: no command uses them, and none loads what takes longer.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        """Find no module; pandas is none that others may find."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not loaded by commands", name=fullname)


def main() -> int:
    """Run the command of the command line; return its exit status."""
    sys.meta_path.insert(0, _WithoutPandas())
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
