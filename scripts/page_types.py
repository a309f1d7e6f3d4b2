"""Types of the server's answers for the page's scripts: src/conceptlens/web/client/answers.d.ts, from the API's schema.

    python scripts/page_types.py            # writes the file
    python scripts/page_types.py --check    # fails where it is not up to date

The scripts name them in their comments, as in `@param {Answers.RunCard} card`, and `make lint-web` checks their use, so
that a field that the server renames is noticed where the page reads it. Users need no node, and browsers never read it.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from conceptlens.web.server.app import STATIC, create_app

TARGET = STATIC / "answers.d.ts"
HEAD = """/** What the server answers. Written by scripts/page_types.py from the API's schema; not edited by hand. */
declare namespace Answers {
"""
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def schema() -> dict[str, Any]:
    """The API's description, as OpenAPI."""
    with tempfile.TemporaryDirectory() as empty:
        app: Any = create_app([Path(empty)])
        while not hasattr(app, "openapi"):
            app = app.app
        described: dict[str, Any] = app.openapi()
        return described


def name_of(reference: str) -> str:
    """Models of one name stand under the names of their modules: `jobs_Jobs`."""
    return "_".join(reference.rsplit("/", 1)[-1].split("__")[-2:])


def typed(part: dict[str, Any]) -> str:
    """A schema as a type."""
    if "$ref" in part:
        return name_of(part["$ref"])
    if "anyOf" in part:
        return " | ".join(dict.fromkeys(typed(one) for one in part["anyOf"]))
    if "enum" in part or "const" in part:
        return " | ".join(json.dumps(value) for value in part.get("enum", [part.get("const")]))
    kind = part.get("type")
    if kind == "array" and "prefixItems" in part:
        return f"[{', '.join(typed(one) for one in part['prefixItems'])}]"
    if kind == "array":
        return f"Array<{typed(part.get('items', {}))}>"
    if kind == "object":
        more = part.get("additionalProperties")
        return f"Record<string, {typed(more) if isinstance(more, dict) else 'any'}>"
    return SIMPLE.get(str(kind), "any")


def references(part: Any) -> set[str]:
    """All that a schema refers to."""
    if isinstance(part, dict):
        own = {part["$ref"].rsplit("/", 1)[-1]} if "$ref" in part else set()
        return own.union(*map(references, part.values()))
    return set().union(*map(references, part)) if isinstance(part, list) else set()


def types() -> str:
    """The file's text: every model that an answer holds."""
    described = schema()
    models = described["components"]["schemas"]
    wanted: set[str] = set()
    found = references([method["responses"] for path in described["paths"].values() for method in path.values()])
    while found - wanted:
        wanted |= found
        found = references([models[name] for name in wanted])
    lines = []
    for name in sorted(wanted, key=name_of):
        model = models[name]
        fields = [f"{key}: {typed(part)}" for key, part in model.get("properties", {}).items()]
        if model.get("additionalProperties"):
            fields.append("[key: string]: any")
        lines.append(f"  interface {name_of(name)} {{ {'; '.join(fields)} }}\n")
    return HEAD + "".join(lines) + "}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the file is not up to date")
    check = parser.parse_args().check
    if not check:
        TARGET.write_text(types(), "utf-8")
    elif not TARGET.exists() or TARGET.read_text("utf-8") != types():
        raise SystemExit(f"{TARGET.name} is not up to date: run `python scripts/page_types.py`.")


if __name__ == "__main__":
    main()
