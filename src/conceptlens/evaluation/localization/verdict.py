"""Do maps beat those that know nothing of the concepts? The verdict on each kind of map, and on a run's maps.

Judged is the map of what the model says: of each group the value that it reads, of each independent concept that it
reads as present. No label chooses the map. A kind of map passes if both its average precision and its pointing are
above those of the best blind map, beyond the paired interval of the difference. Blind are maps that never see the
image, and model-free ones, which see it but none of its concepts: darkness, color, the encoder's main component.
"""

from collections.abc import Mapping
from typing import Any

from conceptlens.evaluation.localization.image_maps import MODEL_FREE
from conceptlens.evaluation.verdict import Numbers, Verdict

AP, POINTING = "average_precision", "pointing"
WORDS = {"own": "The method's own map", "gradcam": "Grad-CAM", "occlusion": "Occlusion"}
NOTHING: Numbers = {"ap": None, "best_blind_ap": None, "pointing": None, "best_blind_pointing": None}


def map_numbers(predicted: Mapping[str, Any], kind: str) -> Numbers:
    """Of one kind of map beside the best blind ones; `predicted` is the part `predicted` of a target."""
    ours, blind = predicted["maps"][kind], predicted["best_blind"]
    return {
        "ap": ours[AP]["value"],
        "best_blind_ap": predicted["maps"][blind[AP]][AP]["value"],
        "pointing": ours[POINTING]["value"],
        "best_blind_pointing": predicted["maps"][blind[POINTING]][POINTING]["value"],
    }


def judge_map(predicted: Mapping[str, Any], kind: str, target: str, *, unmoving: int = 0) -> Verdict:
    """The verdict on one kind of map; `unmoving` concepts have maps that hardly change from image to image."""
    words, lacking = [], []
    for measure, spoken in ((AP, "average precision"), (POINTING, "pointing")):
        blind = predicted["best_blind"][measure]
        ours, theirs = (predicted["maps"][name][measure]["value"] for name in (kind, blind))
        interval = predicted["against"][f"{kind} - {blind}"][measure]["interval"]
        if ours is None or theirs is None or interval is None:
            return Verdict(outcome="unmeasured", reason=f"Too few images have a known {target} to compare maps on.")
        words.append(f"{spoken} {ours:.3f} (best blind map: {theirs:.3f}, {blind.replace('_', ' ')})")
        lacking += [(spoken, blind)] if interval[0] <= 0 else []
    told = f"{WORDS[kind]}, compared with the {target}: {'; '.join(words)}."
    still = f" The maps of {unmoving} concepts hardly change from image to image." if unmoving else ""
    if lacking:
        by = " and ".join(spoken for spoken, _ in lacking)
        seeing = any(blind in MODEL_FREE for _, blind in lacking)
        rival = "a map that knows none of the concepts" if seeing else "a map that never sees the image"
        return Verdict(outcome="finding", reason=f"{told} By {by} it is not better than {rival}.{still}")
    return Verdict(
        outcome="pass", reason=f"{told} It is better than the best map that knows none of the concepts.{still}"
    )
