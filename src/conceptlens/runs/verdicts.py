"""What the examinations of a run said, for whoever draws it: one badge for the run, one caption for its maps.

Read from the run folder as plain JSON, because pictures and pages lie below the measures that write it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import read_json

Badge = Literal["pass", "finding", "unexamined"]
FILE = "trust/trust.json"
MAPS = "localization.json"
SIDES = ("corrections", "leakage", "maps", "calibration", "subgroups", "faithfulness")
# What is measured alone counts, too: such a file holds its verdict, that of an audit several.
MEASURED = {
    "corrections": "trust/interventions.json",
    "leakage": "trust/leakage.json",
    "maps": MAPS,
    "faithfulness": "faithfulness.json",
}
AUDITED = "trust/failures.json"
NOT_BETTER, NOT_CHECKED = "map not shown to beat a blind guess", "map not checked"
KINDS = {"attention": "own", "gradcam": "gradcam"}  # a drawn map, and what `localize` calls it
EVIDENCE_KINDS = {"evidence": "own", "attention": "attention", "gradcam": "gradcam"}  # attention: it does not judge it


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}  # most runs are not examined: a list of many runs asks for each of these files
    try:
        found = read_json(path)
    except DamagedError:
        raise
    except (UserError, OSError):
        return {}  # damaged: nothing was examined
    return found if isinstance(found, dict) else {}


def _read_alone(path: Path) -> dict[str, Any]:
    """One measure of several: if it was changed since, it counts as not measured, and the others are still shown."""
    try:
        return _read(path)
    except DamagedError:
        return {}


def badge(outcomes: Mapping[str, str]) -> Badge:
    """The worst of all outcomes; `unexamined` where nothing was measured."""
    found = set(outcomes.values())
    return "finding" if "finding" in found else "pass" if "pass" in found else "unexamined"


def map_captions(run: Path, *, evidence: bool = False) -> dict[str, str]:
    """What to write under every drawn map, by its kind; a kind that was shown to beat blind guesses is not in it.

    Args:
        run: The run folder.
        evidence: Whether its method has evidence, which is then its own map.
    """
    found = _read(run / MAPS).get("map_verdicts")
    judged = found if isinstance(found, dict) else {}
    kinds = EVIDENCE_KINDS if evidence else KINDS
    told = {kind: (judged.get(name) or {}).get("outcome") for kind, name in kinds.items()}
    words = {"finding": NOT_BETTER, "pass": None}
    captions = {kind: words.get(str(outcome), NOT_CHECKED) for kind, outcome in told.items()}
    return {kind: caption for kind, caption in captions.items() if caption}


def failed_maps(run: Path, *, evidence: bool = False) -> dict[str, str]:
    """The kinds of maps that were tested and failed, with the reason; `evidence` as in `map_captions`."""
    found = _read(run / MAPS).get("map_verdicts")
    judged = found if isinstance(found, dict) else {}
    verdicts = {kind: judged.get(name) or {} for kind, name in (EVIDENCE_KINDS if evidence else KINDS).items()}
    return {kind: str(each.get("reason", "")) for kind, each in verdicts.items() if each.get("outcome") == "finding"}


def unmoving_maps(run: Path) -> list[str]:
    """The concepts whose own maps hardly move from image to image."""
    found = _read(run / MAPS).get("unmoving")
    names = found.get("own") if isinstance(found, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def outcomes(run: Path) -> dict[str, str]:
    """The outcome of every examination, by its side; empty where nothing was examined."""
    found = _outcomes(_read(run / FILE).get("verdicts"))
    alone = _outcomes({side: _read_alone(run / file).get("verdict") for side, file in MEASURED.items()})
    alone |= _outcomes(_read_alone(run / AUDITED).get("verdicts"))
    found |= {side: outcome for side, outcome in alone.items() if outcome != "unmeasured"}
    return dict.fromkeys(SIDES, "unmeasured") | found if found else {}


def _outcomes(verdicts: object) -> dict[str, str]:
    found = verdicts.items() if isinstance(verdicts, dict) else ()
    return {str(side): str(each.get("outcome")) for side, each in found if isinstance(each, dict)}
