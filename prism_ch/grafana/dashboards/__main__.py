"""Writes the dashboards into a folder, one file each, and removes those that are no more."""

from __future__ import annotations

import sys
from pathlib import Path

from prism_ch.grafana.dashboards import dashboards


def write(folder: Path) -> None:
    """Bring a folder's prism-*.json up to date."""
    files = {f"{uid}.json": text for uid, text in dashboards().items()}
    for stale in {path.name for path in folder.glob("prism-*.json")} - files.keys():
        (folder / stale).unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "dashboards"))
