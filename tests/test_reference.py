"""Every public name and every key of a recipe has an entry in docs/reference.md, with help."""

import re

from scripts.reference_docs import FILE, page


def test_the_reference_is_current_and_nothing_is_without_help() -> None:
    text = page()
    assert FILE.read_text("utf-8") == text, "run `python scripts/reference_docs.py`"
    without = [line for line in text.splitlines() if re.fullmatch(r"\| .*\| +\|", line)]
    assert not without
