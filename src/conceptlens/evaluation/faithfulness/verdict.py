"""Do maps show what the model used? A verdict from pixels that change while the image is encoded again.

The method's own map passes, or Grad-CAM where it has none, if

- insertion is above and deletion below those of a random order and of one from the center outwards, with the fill that
  was chosen and with dropped patches, each beyond the paired interval;
- hiding a concept's own part moves it more than hiding others, beyond the paired interval, where parts are known;
- the map changes when the encoder or the head loses what it learned: rank correlations below `ALIKE`.
"""

from collections.abc import Mapping
from typing import Any

from conceptlens.evaluation.localization.verdict import WORDS
from conceptlens.evaluation.verdict import Numbers, Verdict

ALIKE = 0.5
ORDERS = {"random": "a random order", "center": "an order from the center outwards"}
Numbered = Mapping[str, Any]


def judged_map(found: Numbered) -> str:
    """The map that the verdict speaks of."""
    return "own" if "own" in found["curves"] else "gradcam"


def judge_faithfulness(found: Numbered) -> Verdict:
    """The verdict on `faithfulness.json`."""
    kind = judged_map(found)
    failed: dict[str, dict[str, list[str]]] = {"insertion": {}, "deletion": {}}
    for order, words in ORDERS.items():
        for way, curves in ((f"fill {found['fill']}", found), ("patches dropped", found["dropped"])):
            against = curves[f"against_{order}"][kind]
            gained, lost = against["insertion"]["interval"], against["deletion"]["interval"]
            if gained is None or lost is None:
                return Verdict(outcome="unmeasured", reason="Too few images to compare orders of patches on.")
            for name, fails in (("insertion", gained[0] <= 0), ("deletion", lost[1] >= 0)):
                if fails:
                    failed[name].setdefault(words, []).append(way)
    lacking = []
    for name, orders in failed.items():
        rivals = " and ".join(f"{order} ({', '.join(ways)})" for order, ways in orders.items())
        lacking += [f"{name} is no better than with {rivals}"] if rivals else []
    hidden = found["occlusion"].get("own - others")
    if hidden and hidden["interval"] and hidden["interval"][0] <= 0:
        lacking.append("hiding a concept's own part changes it no more than hiding another part")
    for topic, words in (("random_encoder", "encoder"), ("random_head", "head")):
        alike = found[topic].get(kind, {}).get("value")
        if alike is not None and alike >= ALIKE:
            lacking.append(f"with a random {words} the map stays similar (rank correlation {alike:.2f})")
    curves = found["curves"]
    told = "; ".join(
        f"{name} {curves[kind][name]['value']:.3f} ({curves['center'][name]['value']:.3f} from the center outwards)"
        for name in ("insertion", "deletion")
    )
    said = f"{WORDS[kind]} on {found['images']} images: {told}."
    if lacking:
        return Verdict(outcome="finding", reason=f"{said} It does not show what the model used: {'; '.join(lacking)}.")
    return Verdict(outcome="pass", reason=f"{said} The patches that it marks matter more than others.")


def faithfulness_numbers(found: Numbered) -> Numbers:
    """What the verdict rests on; None where it could not be measured."""
    kind = judged_map(found)
    curves, occlusion = found["curves"], found["occlusion"]
    return {
        "insertion": curves[kind]["insertion"]["value"],
        "center_insertion": curves["center"]["insertion"]["value"],
        "deletion": curves[kind]["deletion"]["value"],
        "center_deletion": curves["center"]["deletion"]["value"],
        "own_part": occlusion.get("own", {}).get("value"),
        "other_parts": occlusion.get("others", {}).get("value"),
    }
