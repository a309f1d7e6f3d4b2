"""Recompute the generated tables of evidence pages from their raw rows, and fail on a difference.

    python scripts/evidence_check.py [FOLDER …]

Each folder of evidence is copied, its own page script runs in the copy, and pages and result files are compared. Where
a folder has a `prose.py`, every piece of a sentence that it makes from the rows must stand on README.md; those of
`evidence/findings.py` must stand in docs/findings.md. How many numbers of a page neither of them covers is told, and
what has no script at all is listed: those numbers were typed, and only a reader can compare them.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "evidence"
# The page script of a folder and its arguments; {here} is the copy, {empty} an empty folder in place of new runs. Where
# there is none, the rows of README.md's tables are pieces of `prose.py`.
SCRIPTS: dict[str, tuple[str, ...]] = {
    "blood-cells-tokens": (),
    "corrections": ("page.py",),
    "cortex": ("tables.py", "{empty}"),
    "epochs-auto": (),
    "evidence-cbm": ("page.py",),
    "gig": ("gig_tables.py", "--rows", "{here}"),
    "ivq-ablations": ("pages.py",),
    "ivq-rank": ("collect.py",),
    "ivq-table1": ("table1.py", "--runs", "{empty}", "--keep"),
    "leakage-test": (),
    "mean-logit": ("leveled.py",),
    "own-data": ("page.py",),
    "real-models": ("page.py",),
    "pf-cbm": ("tables.py", "--rows", "{here}/rows", "--out", "{here}"),
    "reliability": ("page.py",),
    "study": (),
    "text-control": (),
    "trust": ("make.py", "page"),
}
# scripts/tables.py fills them
BY_TABLES = ("builtin-encoder", "foundation", "ivq-defaults", "scale", "sparse-head", "speed")


NUMBER = re.compile(r"\d+(?:\.\d+)?")
GENERATED = re.compile(r"<!-- table [^>]*-->.*?<!-- end -->|```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), str(ROOT / "src"), str(EVIDENCE), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, check=False)


def differences(name: str) -> list[str]:
    """What differs between a folder's pages and those its script makes."""
    with tempfile.TemporaryDirectory() as place:
        here, empty = Path(place) / "evidence" / name, Path(place) / "empty"
        shutil.copytree(EVIDENCE / name, here)
        empty.mkdir()
        if not SCRIPTS[name]:
            return prose(here)[0]
        script, *rest = SCRIPTS[name]
        done = run([str(here / script), *(word.format(here=here, empty=empty) for word in rest)])
        if done.returncode:
            return [f"{script} failed: {done.stderr.strip().splitlines()[-1]}"]
        found: list[str] = []
        for page in sorted(EVIDENCE.joinpath(name).glob("*.md")):
            before, after = page.read_text("utf-8"), (here / page.name).read_text("utf-8")
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
            found += [f"{page.name}: {line}" for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        return found + prose(here)[0]


def findings() -> tuple[list[str], int]:
    """Pieces from the rows that docs/findings.md lacks, and how many of its numbers are in no piece."""
    return stated(ROOT / "docs" / "findings.md", EVIDENCE / "findings.py")


def prose(here: Path) -> tuple[list[str], int]:
    """Pieces of sentences that README.md lacks, and how many of its numbers are in no generated table and no piece."""
    return stated(here / "README.md", here / "prose.py")


def stated(page: Path, script: Path) -> tuple[list[str], int]:
    """Pieces that a script makes from rows and a page lacks, and how many numbers of the page nothing covers."""
    text = page.read_text("utf-8") if page.exists() else ""
    pieces: list[str] = []
    if script.exists():
        done = run([str(script)])
        if done.returncode:
            return [f"{script.name} failed: {done.stderr.strip().splitlines()[-1]}"], 0
        pieces = json.loads(done.stdout)
    flat = " ".join(text.split())
    missing = [f"{page.name} should say: {piece}" for piece in pieces if " ".join(piece.split()) not in flat]
    rest = " ".join(GENERATED.sub(" ", text).split())
    for piece in pieces:
        rest = rest.replace(" ".join(GENERATED.sub(" ", piece).split()), " ")
    return missing, len(NUMBER.findall(rest))


def why_not(name: str) -> str | None:
    """Why a folder that was asked for cannot be checked by itself; None where it can."""
    if name in SCRIPTS:
        return None
    if not (EVIDENCE / name).is_dir():
        return f"expected a folder of evidence/, found none. Folders with a page script: {', '.join(SCRIPTS)}"
    if name in BY_TABLES:
        return "its tables are checked by `python scripts/tables.py --check`, which also runs without names"
    typed = prose(EVIDENCE / name)[1]
    return f"it has no page script, so nothing can be compared: {typed} numbers of README.md are typed"


def main(chosen: list[str]) -> int:
    chosen = [name.rstrip("/").removeprefix("evidence/") for name in chosen]
    refused = {name: why for name in chosen if (why := why_not(name))}
    for name, why in refused.items():
        print(f"{name}: {why}.", file=sys.stderr)
    if refused:
        return 2
    failed = False
    for name in chosen or SCRIPTS:
        found = differences(name)
        failed |= bool(found)
        typed = prose(EVIDENCE / name)[1]
        words = f"{name}: {'differs' if found else 'agrees'}; {typed} numbers of README.md are typed"
        print(words, *(f"  {line}" for line in found[:20]), sep="\n", flush=True)
    if not chosen:
        found, typed = findings()
        failed |= bool(found)
        words = f"docs/findings.md: {'differs' if found else 'agrees'}; {typed} numbers are typed"
        print(words, *(f"  {line}" for line in found), sep="\n")
        done = run([str(ROOT / "scripts" / "tables.py"), "--check"])
        failed |= bool(done.returncode)
        print(f"{', '.join(BY_TABLES)} and README: {done.stdout.strip() or 'agree'}")
        known = {*SCRIPTS, *BY_TABLES}
        rest = sorted(path.name for path in EVIDENCE.iterdir() if path.is_dir() and path.name not in known)
        print(f"without a page script, not checked: {', '.join(rest)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
