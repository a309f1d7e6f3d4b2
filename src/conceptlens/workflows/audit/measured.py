"""Sentences about other results in the run folder: interventions, leakage, localization, faithfulness."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.evaluation.codebook.document import TrustFile
from conceptlens.evaluation.interventions.measure import Interventions
from conceptlens.evaluation.leakage.leakage import Leakage


def read_trust(run: Path) -> list[TrustFile]:
    """One entry per file; a file that cannot be read gets a sentence that says so."""
    readers: dict[str, Callable[[Path], list[str]]] = {
        "trust/interventions.json": _interventions,
        "trust/leakage.json": _leakage,
        "localization.json": _localization,
        "faithfulness.json": _faithfulness,
    }
    found = []
    for name, reader in readers.items():
        if (run / name).exists():
            try:
                says = reader(run / name)
            except (UserError, KeyError, TypeError, AttributeError) as error:
                says = [f"It cannot be read ({str(error).splitlines()[0] if str(error) else type(error).__name__})."]
            found.append(TrustFile(file=name, says=says))
    return found


def _interventions(path: Path) -> list[str]:
    found = Interventions.read(path)
    says = [f"Corrections: {found.verdict.text()}"]
    if found.flips and found.flips.median is not None:
        says.append(f"{found.flips.median:g} changed concepts flip half of the decisions.")
    return says


def _leakage(path: Path) -> list[str]:
    return [sentence for sentence in [Leakage.read(path).summary] if sentence]


def _localization(path: Path) -> list[str]:
    result: dict[str, Any] = read_json(path)
    says = []
    for target, found in result["targets"].items():
        words = [
            f"{name} {measures['energy']['value']:.3f}"
            for name, measures in found["maps"].items()
            if measures.get("energy", {}).get("value") is not None
        ]
        says.append(f"Share of a map that lies on the {target}: {', '.join(words)}.")
    return says


def _faithfulness(path: Path) -> list[str]:
    result: dict[str, Any] = read_json(path)
    words = []
    for name, found in result["curves"].items():
        shown = [f"{key} {value['value']:.3f}" for key, value in found.items() if value.get("value") is not None]
        words.append(f"{name}: {', '.join(shown)}")
    return [f"Insertion and deletion on {result['images']} images: {'; '.join(words)}."]
