"""Checks how the code is written, as far as a script can: run by `make lint`. Exits with 1 and a line for each place.

- A function's docstring begins with a sentence of at most 15 words, and no word that only this code would use.
- A test's name has at most 60 characters.
- A module has at most 400 lines, a function at most 70.
- A comment can be read alone: it neither begins nor ends with dots.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

_WORDS, _NAME, _MODULE_LINES, _FUNCTION_LINES = 15, 60, 400, 70
_PRIVATE = re.compile(r"\b(told|tells?|said|says?|of which|so many|as of)\b", re.IGNORECASE)
_DOTS = re.compile(r"^#:?\s*\.\.\.|\.\.\.$")


def check(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and what is wrong there, for one file."""
    text = path.read_text(encoding="utf-8")
    is_test = path.parts[0] == "tests"
    if not is_test and text.count("\n") > _MODULE_LINES:
        yield 1, f"more than {_MODULE_LINES} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((node.lineno, problem) for problem in _definition(node, is_test=is_test))
    if not is_test:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and _DOTS.search(token.string):
                yield token.start[0], "a comment that goes on elsewhere"


def _definition(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_test: bool) -> Iterator[str]:
    if is_test:
        if node.name.startswith("test") and len(node.name) > _NAME:
            yield f"{node.name} has more than {_NAME} characters"
        return
    if (node.end_lineno or 0) - node.lineno >= _FUNCTION_LINES:
        yield f"{node.name} has more than {_FUNCTION_LINES} lines"
    first = re.split(r"\.\s", " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()))[0]
    if len(first.split()) > _WORDS:
        yield f"{node.name}: its first sentence has more than {_WORDS} words"
    if found := _PRIVATE.search(first):
        yield f"{node.name}: write another word for '{found[0]}'"


def main() -> int:
    """Check every Python file that git knows."""
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True)
    files = [path for path in map(Path, listed.stdout.splitlines()) if path.exists()]
    found = [f"{path}:{line}: {problem}" for path in files for line, problem in check(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
