"""Writes docs/reference/, the pages to look things up in, from the code: `python -m tools.reference`."""

from __future__ import annotations

import ast
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import getdoc
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import click
from pydantic import BaseModel

from prism_ch import settings
from prism_ch.cli.root import cli
from prism_ch.model import params
from prism_ch.query.tenancy import tenant_views
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import apply_migrations

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

_NOTE = "<!-- Written by `make reference`; edit the code that it describes. -->"
_SQL = Path(__file__).with_name("sql")
_WORDS = Path(__file__).with_name("glossary.toml")
_TABLES = (_SQL / "reference_tables.sql").read_text(encoding="utf-8")
_COLUMNS = (_SQL / "reference_columns.sql").read_text(encoding="utf-8")
#: A parameter of a view in its statement, and a value for each type of one.
_PARAMETER = re.compile(r"\{(\w+):(\w+)")
_ANY_VALUE = {"DateTime": "'2026-01-01 00:00:00'", "UInt32": "1", "UInt64": "1"}
#: Tables that records are inserted into; all others are read through views.
_INPUTS = ("flow_landing", "flow_json_lines", "goflow2_lines", "pmacct_lines", "nfdump_lines", "akvorado_lines")


class Field(NamedTuple):
    """A field of a class as its source has it: names that share a comment, and their defaults as written."""

    names: tuple[str, ...]
    defaults: tuple[str, ...]
    comment: str


def pages(store: Store) -> dict[str, str]:
    """Return every page by the name of its file; `store` is a migrated, empty database."""
    return {
        "commands.md": commands_page(),
        "settings.md": settings_page(),
        "tables.md": tables_page(store),
        "thresholds.md": thresholds_page(),
        "glossary.md": glossary_page(),
    }


def commands_page() -> str:
    """List every command with its arguments, options and help."""
    parts = [_head("Commands", "What `prism-ch COMMAND --help` says, for all commands.")]
    parts += [_command(path, command) for path, command in _commands(cli, ("prism-ch",))]
    return "\n".join(parts)


def _commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a group and all commands below it, each with its path."""
    yield path, group
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _command(path: tuple[str, ...], command: click.Command) -> str:
    """Write a command's section: its help as a terminal of 100 columns shows it."""
    # A command has the switches for help of the outermost group, whose context it does not have here.
    context = click.Context(command, info_name=" ".join(path), terminal_width=100, **cli.context_settings)
    return f"## {' '.join(path)}\n\n```\n{command.get_help(context)}\n```\n"


def settings_page() -> str:
    """List every setting with its type, default and meaning, and the variables of the environment."""
    classes = _fields(Path(settings.__file__))
    what = "The TOML file that `PRISM_CH_CONFIG` names. Without it every setting has its default."
    parts = [_head("Settings", what)]
    tables: list[tuple[str, type[BaseModel]]] = [
        ("the top of the file", settings.Settings),
        ("`[analysis]`", settings.AnalysisSettings),
        ("`[serve]`", settings.ServeSettings),
        ("`[serve.users.NAME]`", settings.UserSettings),
        ("`[grafana]`", settings.GrafanaSettings),
        ("`[grafana.database]`", settings.GrafanaDatabaseSettings),
        ("`[grafana.links]`", settings.GrafanaLinksSettings),
    ]
    for title, model in tables:
        rows = [
            (_codes(field.names), ", ".join(_default(model, name) for name in field.names), field.comment)
            for field in classes[model.__name__]
        ]
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n{_table(('setting', 'default', 'means'), rows)}")
    variables = [(f"`{name}`", f"`{'.'.join(path)}`") for name, path in settings.ENVIRONMENT.items()]
    variables.append(("`PRISM_CH_CONFIG`", "the file itself"))
    parts.append(f"## Environment\n\nA variable goes before the file.\n\n{_table(('variable', 'sets'), variables)}")
    return "\n".join(parts)


def _default(model: type[BaseModel], name: str) -> str:
    """Write the default of a setting."""
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "none" if value in (None, {}) else f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def tables_page(store: Store) -> str:
    """List every view and input table with its columns."""
    rows = store.rows(_COLUMNS, {"inputs": list(_INPUTS)})
    listed = {
        table: [(f"`{column}`", f"`{type_}`", text) for _, column, type_, text in columns]
        for table, columns in groupby(rows, key=itemgetter(0))
    }
    own = set(tenant_views())
    what = "Every view, and the tables that records are inserted into. Times are UTC; `_s` at the end means seconds."
    parts = [_head("Tables", what)]
    for name, comment, statement in store.rows(_TABLES, {"inputs": list(_INPUTS)}):
        parameters = list(dict.fromkeys(_PARAMETER.findall(statement)))
        is_view = name not in _INPUTS
        reader = "tenants read their own rows" if name in own else "for operators" if is_view else "for insertion"
        columns = _columns_of(store, name, parameters) if parameters else listed[name]
        title = f"{name}({', '.join(each for each, _ in parameters)})" if parameters else name
        parts.append(f"## {title}\n\n{comment} ({reader}).\n\n{_table(('column', 'type', 'means'), columns)}")
    return "\n".join(parts)


def _columns_of(store: Store, name: str, parameters: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """List the columns of a view whose parameters need values first."""
    values = ", ".join(f"{each} = {_ANY_VALUE[type_]}" for each, type_ in parameters)
    rows = store.rows(f"DESCRIBE (SELECT * FROM {name}({values}))")  # noqa: S608 - a name of our own schema
    return [(f"`{column}`", f"`{type_}`", comment) for column, type_, _, _, comment, *_ in rows]


def thresholds_page() -> str:
    """List every threshold and prior of the analysis with its value and reason."""
    folder = Path(str(params.__file__)).parent
    files = sorted(folder.glob("*.py"), key=lambda file: (file.stem != "shared", file.stem))
    what = "Every threshold and prior of the analysis, in `prism_ch/model/params/`. Only confidence is fitted to data."
    parts = [_head("Thresholds", what)]
    for file in files:
        for name, fields in _fields(file).items():
            rows = [(_codes(f.names), _codes(f.defaults), f.comment) for f in fields if f.comment]
            if rows and file.stem != "__init__":
                meaning = _first_sentence(getattr(import_module(f"prism_ch.model.params.{file.stem}"), name))
                parts.append(f"## {file.stem}: {name}\n\n{meaning}\n\n{_table(('name', 'value', 'means'), rows)}")
    return "\n".join(parts)


def glossary_page() -> str:
    """Explain the words of the field and of the code."""
    words = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    of_field = [(word, meaning) for word, meaning in words["field"].items()]
    of_code = [(word, _first_sentence(resolve(path)), f"`{path}`") for word, path in words["code"].items()]
    return "\n".join(
        [
            _head("Glossary", "A word has one meaning, in the code as in these pages."),
            f"## Of the field\n\n{_table(('word', 'means'), of_field)}",
            f"## Of the code\n\n{_table(('word', 'means', 'where'), of_code)}",
        ]
    )


def resolve(path: str) -> Any:
    """Return what a dotted path names: a module, or a class or function in one."""
    module, _, name = path.rpartition(".")
    try:
        return import_module(path)
    except ModuleNotFoundError:
        return getattr(import_module(module), name)


def _fields(file: Path) -> dict[str, list[Field]]:
    """Read the fields of each class of a module.

    A field without a `#:` comment shares that of the field above.
    """
    source = file.read_text(encoding="utf-8")
    lines, found = source.splitlines(), {}
    for item in ast.parse(source).body:
        if isinstance(item, ast.ClassDef):
            fields: list[Field] = []
            for node in item.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not _is_nested(node):
                    _add(fields, Field((node.target.id,), (_written(node.value),), _comment_above(lines, node.lineno)))
            found[item.name] = fields
    return found


def _is_nested(node: ast.AnnAssign) -> bool:
    """Recognise a field that is a class of fields: it is listed by itself."""
    return ast.unparse(node.annotation).endswith(("Settings", "Params"))


def _add(fields: list[Field], field: Field) -> None:
    """Append a field, to the last one if it has no comment of its own."""
    if field.comment or not fields:
        fields.append(field)
    else:
        last = fields[-1]
        fields[-1] = Field(last.names + field.names, last.defaults + field.defaults, last.comment)


def _written(value: ast.expr | None) -> str:
    """Return a default as the source has it."""
    return "" if value is None else ast.unparse(value)


def _comment_above(lines: Sequence[str], number: int) -> str:
    """Return the `#:` comment that ends above a line, as one line."""
    first = number - 1
    while first and lines[first - 1].strip().startswith("#:"):
        first -= 1
    return " ".join(line.strip().removeprefix("#:").strip() for line in lines[first : number - 1])


def _first_sentence(item: Any) -> str:
    """Return the first sentence of a docstring."""
    text = " ".join((getdoc(item) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s", text)[0]


def _codes(names: Sequence[str]) -> str:
    """Write names as code."""
    return ", ".join(f"`{name}`" for name in names)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _head(title: str, what: str) -> str:
    """Write the head of a page."""
    return f"# {title}\n\n{_NOTE}\n\n{what}\n"


def write(found: Mapping[str, str], folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Write all pages."""
    with tempfile.TemporaryDirectory() as folder, connect(f"chdb://{folder}/data") as store:
        apply_migrations(store)
        write(pages(store), FOLDER)


if __name__ == "__main__":
    main()
