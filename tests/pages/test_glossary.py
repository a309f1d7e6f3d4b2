"""The glossary of the package is that of the documentation."""

from conceptlens.pages.glossary import FILE, glossary
from tests import ROOT


def test_the_package_and_the_documentation_have_the_same_glossary() -> None:
    assert FILE.read_text("utf-8") == (ROOT / "docs" / "glossary.md").read_text("utf-8")


def test_every_row_of_the_table_is_an_entry() -> None:
    entries = glossary()
    rows = [line for line in FILE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(entries) == len(rows) - 2
    assert entries["code"].meaning == "One vector of a codebook."
    assert entries["code"].reference == "van den Oord et al., NeurIPS 2017"
    assert entries["preset"].reference is None
    assert all(entry.meaning.endswith(".") for entry in entries.values())
