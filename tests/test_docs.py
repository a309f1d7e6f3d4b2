"""What the documents say is true now: tables, links, examples."""

import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from conceptlens.cli.entry import COMMANDS
from conceptlens.concepts import ConceptSet, library
from conceptlens.core.files import parse_yaml
from conceptlens.core.registry import METHODS, REGULARIZERS
from conceptlens.core.version import __version__
from conceptlens.recipes.parse import load_recipe
from scripts.publish_docs import publish
from tests import ROOT

CARDS = sorted((ROOT / "src/conceptlens/methods/cards").glob("*.md"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("evidence/**/*.md"), *CARDS]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def test_tables_are_those_of_the_evidence() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_example_of_own_data_is_valid() -> None:
    named = {block.split("\n")[0]: block for block in blocks("docs/own-data.md", "yaml")}
    assert len(ConceptSet.from_yaml(named["# lesions.yaml"])) == 5
    loaded = load_recipe(parse_yaml(named["# recipe.yaml"], where="own-data"))
    assert loaded.data.group_column == "patient"


@pytest.mark.parametrize("page", ["README.md", "docs/own-data.md"])
def test_commands_of_the_first_pages_exist(page: str) -> None:
    named = re.findall(r"^conceptlens (\S+)", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert len(named) >= 4
    assert set(named) <= {name.split()[0] for name in COMMANDS}


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_lines_of_python_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are written, but for fewer images and epochs."""
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(page, "python")
    code = re.sub(r"(epochs\W+)\d+", r"\g<1>1", code)
    fewer = ", data__limit=60, encoder__image_size=64, quiet=True)"
    code, trained = re.subn(r"(cl\.train\([^#\n]*)\)", rf"\g<1>{fewer}", code)
    assert trained == 1
    exec(compile(code, page, "exec"), {})


@pytest.mark.slow
def test_own_augmentation_runs_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = (block for block in blocks("docs/python.md", "python") if "transform=" in block)
    fewer = ", data__limit=20, epochs=1, bootstrap=2, quiet=True)"
    code, trained = re.subn(r"(cl\.train\([^#\n]*)\)", rf"\g<1>{fewer}", code)
    assert trained == 1
    exec(f"import conceptlens as cl\n{code}", {})


def test_documented_concept_file_and_recipe_are_valid() -> None:
    (concept_file,) = blocks("docs/concepts.md", "yaml")
    concepts = ConceptSet.from_yaml(concept_file)
    assert concepts.levels["granule colour"] == 1
    (recipe,) = blocks("docs/recipes.md", "yaml")
    assert load_recipe(parse_yaml(recipe, where="docs")).encoder.train == 4


def test_everything_registered_is_documented() -> None:
    recipes, concepts = (ROOT / "docs/recipes.md").read_text("utf-8"), (ROOT / "docs/concepts.md").read_text("utf-8")
    for name in REGULARIZERS.names():
        assert f"`{name}`" in recipes
    bodies = [page.read_text("utf-8").split("---\n", 2)[2] for page in CARDS]
    for name in METHODS.names():
        assert any(f"`{name}`" in body for body in bodies)
    for name in library():
        assert f"`{name}`" in concepts


def test_the_table_of_methods_is_of_methods_that_exist() -> None:
    rows = [line for line in (ROOT / "docs/methods.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    for row in rows:
        page = ROOT / "docs" / row.split("](")[1].split(")")[0]
        for name in re.findall(r"`([^`]+)`", row.split("|")[1]):
            assert name in METHODS.entries
            assert f"`{name}`" in page.read_text("utf-8").split("---\n", 2)[2]
    assert len(rows) >= 15


def test_pictures_and_the_shared_demo_are_of_this_version() -> None:
    """`make screenshots tour` makes them; `python scripts/screenshots.py --check` compares scripts and styles too."""
    made = json.loads((ROOT / "docs" / "pictures" / "made.json").read_text("utf-8"))
    assert made["version"] == __version__
    tour = (ROOT / "docs" / "examples" / "demo-tour.html").read_text("utf-8")
    assert f'content="conceptlens {__version__}"' in tour


def test_the_site_has_a_folder_for_each_version(tmp_path: Path) -> None:
    built, site = tmp_path / "built", tmp_path / "site"
    built.mkdir()
    (built / "index.html").write_text("old")
    for name in ("latest", "v0.9.0", "0.10.0"):
        names = publish(built, site, name)
    assert names == json.loads((site / "versions.json").read_text()) == ["0.10.0", "0.9.0", "latest"]
    assert "0.10.0/index.html" in (site / "index.html").read_text()
    (built / "index.html").write_text("new")
    publish(built, site, "latest")
    assert [(site / name / "index.html").read_text() for name in names] == ["old", "old", "new"]
    with pytest.raises(SystemExit, match="expected latest"):
        publish(built, site, "../elsewhere")
