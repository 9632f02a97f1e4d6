"""The pages of docs/ and the README: what they point to is there, and what is there is in them."""

import re
import tomllib
from pathlib import Path

import click
import pytest

from prism_ch import settings
from prism_ch.cli.root import cli
from tools import reference

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_titles_that_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    for path, anchor in links:
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), anchor


def test_every_page_is_linked_from_the_index() -> None:
    index = ROOT / "docs/README.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#]*)\)", index.read_text("utf-8"))}
    assert set((ROOT / "docs").rglob("*.md")) - linked == {index}


def test_readme_takes_at_most_7_kb() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 7000


@pytest.mark.parametrize("name", ["commands", "settings", "thresholds", "glossary"])
def test_reference_page_is_as_the_code_gives_it(name: str) -> None:
    made = getattr(reference, f"{name}_page")()
    assert (reference.FOLDER / f"{name}.md").read_text(encoding="utf-8") == made, "run make reference"


def test_reference_holds_every_command_and_option() -> None:
    page = (reference.FOLDER / "commands.md").read_text(encoding="utf-8")

    def named(command: click.Command, path: str) -> list[str]:
        options = [option for one in command.params if isinstance(one, click.Option) for option in one.opts[:1]]
        below = command.commands.items() if isinstance(command, click.Group) else ()
        return [f"## {path}\n", *options, *(text for name, one in below for text in named(one, f"{path} {name}"))]

    assert [text for text in named(cli, "prism-ch") if text not in page] == []


def test_reference_holds_every_setting() -> None:
    page = (reference.FOLDER / "settings.md").read_text(encoding="utf-8")
    models = (
        settings.Settings, settings.AnalysisSettings, settings.ServeSettings, settings.UserSettings,
        settings.GrafanaSettings, settings.GrafanaDatabaseSettings, settings.GrafanaLinksSettings,
    )  # fmt: skip
    tables = ("analysis", "serve", "grafana", "database", "links")
    names = [name for model in models for name in model.model_fields if name not in tables]
    assert [name for name in (*names, *settings.ENVIRONMENT) if f"`{name}`" not in page] == []


def test_every_threshold_has_a_meaning_of_its_own() -> None:
    page = (reference.FOLDER / "thresholds.md").read_text(encoding="utf-8")
    meanings = re.findall(r"^\| `.* \| (.*) \|$", page, re.MULTILINE)
    assert len(meanings) > 20
    assert [text for text in meanings if text.startswith("...") or text.endswith("...")] == []


def test_words_of_the_code_name_what_exists() -> None:
    words = tomllib.loads((ROOT / "tools/glossary.toml").read_text(encoding="utf-8"))
    assert [word for word, path in words["code"].items() if not reference.resolve(path).__doc__] == []
