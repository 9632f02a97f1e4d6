"""Evidence is for readers: nothing in the analysis goes by it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ANALYSIS = Path(__file__).parents[3] / "prism_ch" / "analysis"
MODULES = sorted(ANALYSIS.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ANALYSIS)))
def test_evidence_is_written_and_never_read(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert "json" not in imported
    extended = {
        id(value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is None
    }
    read = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "evidence" and id(node) not in extended
    ]
    assert read == []
