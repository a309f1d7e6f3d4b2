"""Write docs/papers.md from the cards of the methods: every paper that is implemented here, with BibTeX.

Run `python scripts/papers_docs.py` after a change of a card. A test checks that the page is current.
"""

import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

from conceptlens.core.files import parse_yaml

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs" / "papers.md"
CARDS = ROOT / "src" / "conceptlens" / "methods" / "cards"
OTHERS = {  # what no card stands for
    "decompose": "The authors of GIG: Decompose the Model: Mechanistic Interpretability in Image Models with "
    "Generalized Integrated Gradients (GIG). Submitted to ICLR 2025.",
    "codebook": "T. Yang and others: Concept-Centric Token Interpretation for Vector-Quantized Generative Models "
    "(CORTEX). ICML 2025.",
}
HEAD = """# Papers

This page is written by `scripts/papers_docs.py` from the cards of the methods. If you use a method, cite its paper as
well as conceptlens ([CITATION.cff](../CITATION.cff)). Venues and names are as the cards give them; check them with the
publisher.

Words as in the papers: [glossary](glossary.md). What was seen of their claims: [findings](findings.md).
"""


class Paper(NamedTuple):
    """`A. Author, B. Author: Title. Venue Year.`, taken apart."""

    authors: list[str]
    title: str
    venue: str
    year: str

    @classmethod
    def of(cls, text: str) -> "Paper":
        authors, _, rest = " ".join(text.split()).partition(": ")
        found = re.match(r"(.*[^.])\. (.*?),? ?((?:19|20)\d\d)", rest)
        assert found, text
        names = re.split(r", | and ", authors.replace(" et al.", " and others"))
        return cls(names, found[1], found[2], found[3])

    @property
    def key(self) -> str:
        plain = unicodedata.normalize("NFKD", self.authors[0].split()[-1]).encode("ascii", "ignore").decode()
        word = next(word for word in re.findall(r"[A-Za-z]+", self.title) if len(word) > 3)
        return f"{plain}{self.year}{word}".lower()

    def bibtex(self) -> str:
        kind, place = ("misc", "howpublished") if "arXiv" in self.venue else ("inproceedings", "booktitle")
        return "\n".join(
            [
                f"@{kind}{{{self.key},",
                f"  title = {{{{{self.title}}}}},",
                f"  author = {{{' and '.join(self.authors)}}},",
                f"  {place} = {{{self.venue}}},",
                f"  year = {{{self.year}}},",
                "}",
            ]
        )


def papers() -> list[tuple[Paper, str]]:
    """Each paper, and where it is used."""
    found = []
    for card in sorted(CARDS.glob("*.md")):
        front = parse_yaml(card.read_text("utf-8").split("---\n")[1], where=card.name)
        used = f"[{front['title']}](../src/conceptlens/methods/cards/{card.name})"
        several = re.split(r"(?<=\d{4})\. (?=[A-Z]\. )", " ".join((front.get("paper") or "").split()))
        found += [(Paper.of(text), used) for text in several if text]
    found += [(Paper.of(text), f"[{page}]({page}.md)") for page, text in OTHERS.items()]
    return sorted(found, key=lambda entry: entry[0].key)


def page() -> str:
    lines = [HEAD]
    for paper, used in papers():
        names = ", ".join(paper.authors).replace(", others", " and others")
        lines += [f"## {paper.title}", "", f"{names}. {paper.venue} {paper.year}. Here: {used}.", ""]
        lines += ["```bibtex", paper.bibtex(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
    print(f"written: {FILE}")
