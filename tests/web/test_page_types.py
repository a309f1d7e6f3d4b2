"""Types of the server's answers, for the page's scripts, are those of the API."""

import pytest

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

from scripts.page_types import TARGET, typed, types


def test_the_types_are_up_to_date() -> None:
    assert TARGET.read_text("utf-8") == types(), "run `python scripts/page_types.py`"


def test_a_schema_as_a_type() -> None:
    assert typed({"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}) == "number | null"
    assert typed({"type": "array", "items": {"$ref": "#/components/schemas/Row"}}) == "Array<Row>"
    assert typed({"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}]}) == "[string, boolean]"
    assert typed({"type": "object", "additionalProperties": {"enum": ["a", 1]}}) == 'Record<string, "a" | 1>'
    assert typed({"$ref": "#/components/schemas/conceptlens__web__schemas__jobs__Jobs"}) == "jobs_Jobs"
