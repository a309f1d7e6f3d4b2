"""The lines a person reads of `localization.json`."""

from collections.abc import Mapping
from typing import Any

from conceptlens.evaluation.localization.verdict import WORDS

SHOWN = {
    "average_precision": "precision",
    "pointing": "pointing",
    "energy": "energy",
    "lift": "lift",
    "pointing_patch": "within a patch",
    "distance_patches": "distance",
    "iou_best": "IoU",
}
ABOUT = {"object": "every concept's map against the object", "part": "each concept's map against its part"}


def localization_text(result: Mapping[str, Any]) -> str:
    """A table for each target: a row a map, a column a measure; intervals are in the file."""
    lines = [f"{result['run']} on {result['data']} ({result['split']}), {result['images']} images"]
    if result["maps"]["own"] is None:
        others = " and ".join(WORDS[kind] for kind in ("gradcam", "occlusion") if kind in result["maps"])
        lines.append(f"this method has no map of its own; it is judged by {others} alone")
    for target, found in result["targets"].items():
        lines += ["", f"{ABOUT[target]}, {found['images']} images, {found['concepts']} concepts"]
        lines.append(" " * 15 + "".join(f"{word:>16}" for word in SHOWN.values()))
        for name, measures in found["maps"].items():
            lines.append(f"  {name:13}" + "".join(f"{_number(measures.get(key)):>16}" for key in SHOWN))
        lines += _predicted(found)
    return "\n".join(lines)


def _predicted(found: Mapping[str, Any]) -> list[str]:
    """What the maps of the predicted values are worth beside the best blind map; nothing in files of before."""
    predicted = found.get("predicted") or {}
    lines = []
    for kind, skill in predicted.get("skill", {}).items():
        ours, all_of_it = predicted["maps"][kind], found["maps"][kind]
        words = [
            f"{key.replace('_', ' ')} {_number(estimate)}"
            for key, estimate in (
                ("average_precision", ours["average_precision"]),
                ("pointing", ours["pointing"]),
                ("skill", skill),
                ("own part against others", ours.get("part_specificity")),
                ("true value against false", all_of_it.get("value_specificity")),
                ("effective patches", ours.get("effective_patches")),
                ("empty", ours.get("empty")),
            )
            if estimate and estimate["value"] is not None
        ]
        lines.append(f"  {kind}, of what it predicts: {', '.join(words)}")
    return lines


def _number(estimate: Mapping[str, Any] | None) -> str:
    if not estimate or estimate["value"] is None:
        return "-"
    interval = estimate["interval"]
    spread = f" ± {(interval[1] - interval[0]) / 2:.3f}" if interval else ""
    return f"{estimate['value']:.3f}{spread}"
