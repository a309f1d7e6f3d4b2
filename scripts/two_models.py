"""The README's first picture, docs/two-models.webp: two models' maps of one image, and one correction.

python scripts/two_models.py [RUN RUN]    by default runs/demo and runs/demo-evidence, which `make demo` trains
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import conceptlens as cl
from conceptlens.explanations.document import Explanation
from conceptlens.explanations.pictures.overlay import evidence_overlay, overlay

OUT = Path(__file__).parents[1] / "docs" / "two-models.webp"
MAPS = 3
BEFORE, AFTER = "#b8b8b8", "#0b6e99"


def correction(model: cl.TrainedModel) -> tuple[Explanation, str, Any]:
    """A test image of which the model is wrong, and the one told concept that makes it right."""
    for explanation in model.explain(n=20, show="wrong"):
        read = {group.name: group for group in model.concepts.groups}
        for reading in explanation.concepts:
            wrong = reading.label == 1 and reading.probability < 0.5 and read[reading.group].kind == "exclusive"
            if not wrong or explanation.seen is None:
                continue
            answer = model.intervene(explanation.seen, {reading.group: reading.value})
            if [answer.after.said] == explanation.truth and answer.before.said != answer.after.said:
                return explanation, reading.name, answer
    raise SystemExit("No wrong test image is mended by one concept: choose another run.")


def main() -> None:
    runs = sys.argv[1:3] or ["runs/demo", "runs/demo-evidence"]
    first, second = (cl.load(run) for run in runs)
    told, concept, answer = correction(second)
    assert told.seen is not None
    groups = list(dict.fromkeys([concept, *(maps.concept for maps in told.maps if maps.evidence)]))[:MAPS]
    figure, axes = plt.subplots(2, MAPS + 2, figsize=(2.1 * (MAPS + 2), 4.6))
    for row, model in zip(axes, (first, second), strict=True):
        explanation = model.explain([told.seen], concepts=groups)[0]
        row[0].imshow(told.seen)
        row[0].set_title(f"{model.info['method']}\nsays {' and '.join(explanation.predicted)}", fontsize=9)
        for axis, maps in zip(row[1:-1], explanation.maps, strict=False):
            own = maps.evidence or maps.attention
            if own is not None:
                draw = evidence_overlay if maps.evidence else overlay
                axis.imshow(draw(told.seen, own, 0.75))
            axis.set_title(maps.concept.replace(": ", ":\n"), fontsize=8)
        for axis in row[:-1]:
            axis.axis("off")
    axes[0][-1].axis("off")
    names = list(answer.before.probabilities)
    for place, (side, color) in enumerate(((answer.before, BEFORE), (answer.after, AFTER))):
        heights = [side.probabilities[name] for name in names]
        axes[1][-1].barh([at + 0.4 * place for at in range(len(names))], heights, 0.38, color=color)
    axes[1][-1].set_yticks([at + 0.2 for at in range(len(names))], names, fontsize=7)
    axes[1][-1].tick_params(axis="x", labelsize=7)
    words = concept.replace(": ", ":\n")
    axes[1][-1].set_title(f"told {words},\nit says {answer.after.said}", fontsize=8)
    axes[1][-1].invert_yaxis()
    figure.tight_layout()
    figure.savefig(OUT, dpi=120)
    print(f"written: {OUT}")


if __name__ == "__main__":
    main()
