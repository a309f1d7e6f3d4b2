"""Resolve the versions that development, CI and releases use: requirements/*.txt. Needs `pip install -e '.[release]'`.

Every file has a hash, so that nothing else is installed under its name, and no lock names the index it came from: the
same lock works with any mirror. `pip install --require-hashes -r requirements/dev.txt && pip install --no-deps
--no-build-isolation -e .` installs it. `--check` resolves nothing: it says whether the locks fit pyproject.toml.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = {"dev": ["dev"], "runtime": ["page"], "release": ["release"]}  # file, extras
TOOLS = ("release",)  # locks of an extra alone, without what conceptlens itself needs
# Universal: one lock for Linux, macOS and Windows and every Python from 3.11 on.
COMPILE = ["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
COMPILE += ["--no-emit-index-url", "--no-emit-find-links", "--no-header", "--no-annotate"]
HEADER = "# Made by scripts/lock.py: versions and hashes for {}. No index is named.\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a lock does not fit pyproject.toml")
    if parser.parse_args().check:
        lacking = [line for name in LOCKS for line in unfit(name)]
        print("\n".join(lacking) or "the locks fit pyproject.toml")
        return 1 if lacking else 0
    for name in LOCKS:
        words = [sys.executable, "-m", "uv", *COMPILE, "-"]
        words += ["--constraint", "requirements/dev.txt"] if name != "dev" else []
        lines = "\n".join(asked_for(name))
        text = subprocess.run(words, input=lines, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        (ROOT / "requirements" / f"{name}.txt").write_text(HEADER.format(name) + text, "utf-8")
    return 0


def locked(name: str) -> dict[str, list[str]]:
    """The versions of each package in a lock: several where they depend on the Python or the system."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for package, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\\n]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


def asked_for(name: str) -> list[str]:
    """What pyproject.toml asks for that a lock holds; extras that name others are followed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted, waiting = [] if name in TOOLS else [*project["dependencies"]], [*LOCKS[name]]
    while waiting:
        for line in extras[waiting.pop()]:
            asked = Requirement(line)
            if asked.name == project["name"]:
                waiting += asked.extras
            else:
                wanted.append(line)
    return wanted


def unfit(name: str) -> list[str]:
    """What pyproject.toml asks for and a lock lacks, or has in a version that does not fit."""
    versions, lacking = locked(name), []
    for asked in map(Requirement, asked_for(name)):
        held = versions.get(canonicalize_name(asked.name), [])
        if not held or not all(asked.specifier.contains(version, prereleases=True) for version in held):
            lacking.append(f"requirements/{name}.txt: {asked}: {', '.join(held) or 'not there'}")
    return lacking


if __name__ == "__main__":
    raise SystemExit(main())
