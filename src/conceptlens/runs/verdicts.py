"""What the examinations of a run said, for whoever draws it: one badge for the run, one caption for its maps.

Read from the run folder as plain JSON, because pictures and pages lie below the measures that write it.
"""

from pathlib import Path
from typing import Any, Literal

from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import read_json

Badge = Literal["pass", "finding", "unexamined"]
FILE = "trust/trust.json"
MAPS = "localization.json"
NOT_BETTER, NOT_CHECKED = "map not shown to beat a blind guess", "map not checked"
KINDS = {"attention": "own", "gradcam": "gradcam"}  # a drawn map, and what `localize` calls it
EVIDENCE_KINDS = {"evidence": "own", "attention": "attention", "gradcam": "gradcam"}  # attention: it does not judge it


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except DamagedError:
        raise
    except (UserError, OSError):
        return {}  # not there, or damaged: nothing was examined
    return found if isinstance(found, dict) else {}


def badge(run: Path) -> Badge:
    """The worst that `conceptlens trust` found; `unexamined` where nothing was measured."""
    verdicts = _read(run / FILE).get("verdicts")
    outcomes = {each.get("outcome") for each in verdicts.values()} if isinstance(verdicts, dict) else set()
    return "finding" if "finding" in outcomes else "pass" if "pass" in outcomes else "unexamined"


def map_captions(run: Path, *, evidence: bool = False) -> dict[str, str]:
    """What to write under every drawn map, by its kind; a kind that was shown to beat blind guesses is not in it.

    Args:
        run: The run folder.
        evidence: Whether its method has evidence, which is then its own map.
    """
    found = _read(run / MAPS).get("map_verdicts")
    judged = found if isinstance(found, dict) else {}
    kinds = EVIDENCE_KINDS if evidence else KINDS
    outcomes = {kind: (judged.get(name) or {}).get("outcome") for kind, name in kinds.items()}
    words = {"finding": NOT_BETTER, "pass": None}
    captions = {kind: words.get(str(outcome), NOT_CHECKED) for kind, outcome in outcomes.items()}
    return {kind: caption for kind, caption in captions.items() if caption}
