"""mypy over the package and over the scripts beside it, in one build.

    python scripts/check_types.py

Scripts of different folders have equal names (`run.py`, `tables.py`) and import their neighbors by bare name, which
the command `mypy` refuses as duplicate modules. So every script gets a module name of its own here, except those that
a neighbor imports, which keep theirs.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mypy.build import build
from mypy.errors import CompileError
from mypy.main import process_options
from mypy.modulefinder import BuildSource

ROOT = Path(__file__).resolve().parents[1]
RELAXED: dict[str, object] = {"disallow_untyped_calls": False, "warn_return_any": False, "warn_unused_ignores": False}
FOLDERS = [
    ROOT / "bench",
    ROOT / "scripts",
    ROOT / "evidence",
    *sorted(path for path in (ROOT / "evidence").iterdir() if path.is_dir()),
]


def imported(file: Path) -> Iterator[str]:
    """Names of the modules that a file imports anywhere in it."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def script_sources() -> list[BuildSource]:
    """A source for each script, with a name that no other has."""
    owners: dict[str, Path] = {}
    sources = []
    for folder in FOLDERS:
        files = sorted(folder.glob("*.py"))
        shared = {name for file in folder.rglob("*.py") for name in imported(file)}
        for file in files:
            place = file.relative_to(ROOT)
            dotted = ".".join(place.with_suffix("").parts)
            by_import = [name for name in (file.stem, dotted) if name in shared]
            name = by_import[0] if by_import else re.sub(r"\W", "_", dotted)
            if name in owners:
                sys.exit(f"{owners[name]} and {place} are both imported as {name!r}: rename one of them.")
            owners[name] = place
            sources.append(BuildSource(str(place), name))
    return sources


def main() -> int:
    sources, options = process_options(["--config-file", str(ROOT / "pyproject.toml"), *sys.argv[1:]])
    # Neighbors that are imported are found among the sources; the root holds `tests` and `pretraining`.
    options.mypy_path = [str(ROOT), str(ROOT / "src")]
    scripts = script_sources()
    for source in scripts:  # scripts are not held to all that `strict` asks of the package
        options.per_module_options[source.module] = RELAXED
    sources += scripts
    try:
        errors = build(sources, options).errors
    except CompileError as error:
        errors = error.messages
    print("\n".join(errors) or f"No type errors in {len(sources)} files.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
