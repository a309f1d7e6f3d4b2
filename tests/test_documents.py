"""Every command line, option, recipe key and Python name in documents and notebooks exists."""

from pathlib import Path

import pytest

from scripts import papers_docs
from tests import ROOT
from tests.documents import (
    command_lines,
    is_key,
    texts,
    wrong_in_command,
    wrong_in_python,
    wrong_in_recipes,
    wrong_keys,
    wrong_names,
    wrong_options,
)

GENERATED = {"command-line.md", "files.md", "reference.md"}  # they are compared with what writes them
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in GENERATED]
CARDS = sorted((ROOT / "src/conceptlens/methods/cards").glob("*.md"))
BOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
ALL = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *PAGES, *CARDS, *BOOKS]


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_document_names_exists(page: Path) -> None:
    text, code = texts(page)
    wrong = [f"conceptlens {line}: {why}" for line in command_lines(text) if (why := wrong_in_command(line))]
    wrong += [f"no key {key}" for key in sorted(wrong_keys(text) | wrong_in_recipes(text))]
    wrong += [f"no option or name {word}" for word in sorted(wrong_options(text) | wrong_names(text))]
    for block in code:
        wrong += wrong_in_python(block)
    assert not wrong


def test_the_page_of_papers_is_current_and_its_keys_are_apart() -> None:
    assert papers_docs.FILE.read_text("utf-8") == papers_docs.page(), "run `python scripts/papers_docs.py`"
    keys = [paper.key for paper, _ in papers_docs.papers()]
    assert len(keys) == len(set(keys)) > 15


def test_a_paper_is_taken_apart() -> None:
    paper = papers_docs.Paper.of("P. W. Koh, P. Lió and others: A title: with a colon. ICML 2020.")
    assert paper == (["P. W. Koh", "P. Lió", "others"], "A title: with a colon", "ICML", "2020")
    assert paper.key == "koh2020title"
    assert "author = {P. W. Koh and P. Lió and others}," in paper.bibtex()
    assert papers_docs.Paper.of("D. Ram: Words there. arXiv 2606.04364, 2026.").venue == "arXiv 2606.04364"


def test_enough_is_read() -> None:
    lines = [line for page in ALL for line in command_lines(texts(page)[0])]
    assert len(lines) > 150
    assert len({line.split()[0] for line in lines}) > 25


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train blood-cells/cbm --training.epochs 3 --seed 1  # a comment", None),
        ("train RECIPE --training.epoch 3", "--training.epoch"),
        ("train RECIPE --data.rename.classes '{a: b}'", None),
        ("trust RUN --json", None),
        ("trust RUN --resample 3", "--resample"),
        ("study mak RUN", "mak"),
        ("concepts draft --classes classes.txt --data.class_column dx", "--data.class_column"),
        ("trian RECIPE", "trian"),
    ],
)
def test_a_wrong_command_is_found(line: str, says: str | None) -> None:
    found = wrong_in_command(line)
    assert (found is None) if says is None else (found is not None and says in found)


def test_a_wrong_key_is_found() -> None:
    assert is_key("method.attention_heads") is False
    page = "`training.epochs: 3`, `training.epoch`, `data.source`, `--encoder.stor run`, `data.csv`, `method.name`"
    assert wrong_keys(page) == {"training.epoch", "encoder.stor"}


def test_a_wrong_option_or_name_is_found() -> None:
    page = "`--queue` and `--queues 3`, `--data.source`, `--full`, `conceptlens.api.share`, `conceptlens.api.shared`"
    assert wrong_options(page) == {"--queues"}
    assert wrong_names(page) == {"conceptlens.api.shared"}


def test_a_wrong_key_in_a_recipe_is_found() -> None:
    page = "```yaml\ndata: {source: shapes}\ntraining: {epochs: 3, epoch: 4}\n```\n```yaml\nclasses: [a]\n```"
    assert wrong_in_recipes(page) == {"training.epoch"}


def test_a_wrong_name_in_python_is_found() -> None:
    code = """
import conceptlens as cl
from conceptlens.core.errors import UserError, UserErrors
model = cl.train("x", epochs=1, encoder__train=1, epoch=2)
model.trust(n=3, resample=3)
cl.serve(ports=3)
cl.nothing
"""
    assert sorted(wrong_in_python(code)) == [
        *("cl.nothing", "cl.serve(ports=)", "cl.train(epoch=)"),
        *("conceptlens.core.errors.UserErrors", "model.trust(resample=)"),
    ]
