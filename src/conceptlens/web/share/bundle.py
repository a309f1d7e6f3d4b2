"""The page's ES modules as one script, without a build tool.

Each module becomes a function that is called once, in the order in which modules need each other; what it exports is an
object, and what it imports is taken from such objects. That is enough for modules that import by name, export
functions, classes and constants, and do not import each other in a circle; anything else is refused by name.
"""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

_IMPORT = re.compile(r'^import\s+(\{[^}]*\}|\*\s+as\s+\w+)\s+from\s*"([^"]+)";', re.MULTILINE)
_FOR_EFFECT = re.compile(r'^import\s*"([^"]+)";', re.MULTILINE)
_PASSED_ON = re.compile(r'^export\s*\{([^}]*)\}\s*from\s*"([^"]+)";', re.MULTILINE)
_LATER = re.compile(r'\bimport\("([^"]+)"\)')
_COMMENT = re.compile(r"\s*(?:/?\*|//)")
_DECLARED = re.compile(r"^export\s+((?:async\s+)?(?:function\*?|class|const)\s+(\w+))", re.MULTILINE)
_LISTED = re.compile(r"(^|[;}])export\s*\{([^}]*)\};?", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
Place = Callable[[Path], str]


class BundleError(Exception):
    """A module that cannot be put into one script: a mistake of ours, not of a user."""


def bundle(entry: Path, *, swap: Mapping[Path, Path] | None = None, without: Collection[Path] = ()) -> str:
    """One script that does what `entry` does, for a `<script type="module">`.

    Args:
        entry: The module that starts the page.
        swap: Modules in whose place others stand.
        without: Modules that are left out, with all that only they need; what they export is null.
    """
    others = {old.resolve(): new.resolve() for old, new in (swap or {}).items()}
    left_out = {path.resolve() for path in without}
    names: dict[Path, str] = {}
    pieces: list[str] = []

    def place(path: Path, above: tuple[Path, ...]) -> str:
        """The name of a module's object; all that it needs stands before it."""
        path = others.get(path, path)
        if path in names:
            return names[path]
        if path in above:
            circle = " → ".join(each.name for each in (*above[above.index(path) :], path))
            raise BundleError(f"{circle}: these modules import each other in a circle.")
        if path in left_out:
            made = f"{{ {', '.join(f'{name}: null' for name in exports(path))} }}"
        else:
            made = _rendered(path, lambda need: place(need, (*above, path)))
        names[path] = f"m{len(names)}"
        pieces.append(f"// {path.name}\nconst {names[path]} = {made};\n")
        return names[path]

    place(entry.resolve(), ())
    return inert("".join(pieces))


def inert(script: str) -> str:
    """A script that no HTML parser takes for anything but a script; in strings and templates it means the same."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", script, flags=re.IGNORECASE)


def exports(path: Path) -> list[str]:
    """The names that a module exports."""
    text = path.read_text("utf-8")
    lists = [found[1] for found in _PASSED_ON.finditer(text)] + [found[2] for found in _LISTED.finditer(text)]
    named = [new for inner in lists for _, new in _pairs(inner)]
    return list(dict.fromkeys([*(found[2] for found in _DECLARED.finditer(text)), *named]))


def _pairs(inner: str) -> list[tuple[str, str]]:
    """`a, b as c` as (a, a), (b, c)."""
    words = [part.split() for part in inner.split(",") if part.strip()]
    return [(each[0], each[-1]) for each in words]


def _rendered(path: Path, place: Place) -> str:
    """A module as a function that is called at once."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise BundleError(f"{path.name}: no such module.") from None
    out: list[str] = []

    def near(name: str) -> str:
        return place((path.parent / name).resolve())

    def imported(found: re.Match[str]) -> str:
        what, module = found[1], near(found[2])
        if what.startswith("*"):
            return f"const {what.split()[-1]} = {module};"
        inner = ", ".join(old if old == new else f"{old}: {new}" for old, new in _pairs(what.strip("{}")))
        return f"const {{ {inner} }} = {module};"

    def passed_on(found: re.Match[str]) -> str:
        module = near(found[2])
        out.extend(f"{new}: {module}.{old}" for old, new in _pairs(found[1]))
        return ""

    def declared(found: re.Match[str]) -> str:
        out.append(found[2])
        return found[1]

    def listed(found: re.Match[str]) -> str:
        out.extend(new if old == new else f"{new}: {old}" for old, new in _pairs(found[2]))
        return found[1]

    text = _PASSED_ON.sub(passed_on, _IMPORT.sub(imported, text))
    text = _FOR_EFFECT.sub(lambda found: f"{near(found[1])};", text)
    text = "\n".join(
        line if _COMMENT.match(line) else _LATER.sub(lambda found: f"Promise.resolve({near(found[1])})", line)
        for line in text.split("\n")
    )
    text = _LISTED.sub(listed, _DECLARED.sub(declared, text))
    strange = _LEFT.search(text)
    if strange:
        raise BundleError(f"{path.name}: `{strange[0][:80]}` is a way to import or export that is not bundled.")
    return f"(() => {{\n{text.strip()}\nreturn {{ {', '.join(out)} }};\n}})()"
