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
    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    grid = figure.add_gridspec(2, MAPS + 2, width_ratios=[1.15, *[1] * MAPS, 1.3])
    image = figure.add_subplot(grid[:, 0])
    image.imshow(told.seen)
    image.set_title(f"the image\n(truth: {' and '.join(told.truth or ())})", fontsize=10)
    image.axis("off")
    for row, model in enumerate((first, second)):
        explanation = model.explain([told.seen], concepts=groups)[0]
        for column, maps in enumerate(explanation.maps, start=1):
            axis = figure.add_subplot(grid[row, column])
            own = maps.evidence or maps.attention
            if own is not None:
                axis.imshow((evidence_overlay if maps.evidence else overlay)(told.seen, own, 0.75))
            name = maps.concept.replace(": ", ":\n")
            axis.set_title(f"{model.info['method']} predicts {explanation.predicted[0]}" if column == 2 else "", pad=36)
            axis.text(0.5, 1.03, name, fontsize=9, ha="center", va="bottom", transform=axis.transAxes)
            axis.axis("off")
    bars = figure.add_subplot(grid[:, -1])
    names = list(answer.before.probabilities)
    for place, (side, color, what) in enumerate(((answer.before, BEFORE, "before"), (answer.after, AFTER, "after"))):
        heights = [side.probabilities[name] for name in names]
        bars.barh([at + 0.4 * place for at in range(len(names))], heights, 0.38, color=color, label=what)
    bars.set_yticks([at + 0.2 for at in range(len(names))], names, fontsize=9)
    bars.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"], fontsize=9)
    bars.set_title(f"{second.info['method']} is told\n{concept}", fontsize=10)
    bars.legend(fontsize=9, frameon=False, loc="best")
    bars.spines[["top", "right"]].set_visible(False)
    bars.invert_yaxis()
    figure.savefig(OUT, dpi=120, bbox_inches="tight", pad_inches=0.1)
    print(f"written: {OUT}")


if __name__ == "__main__":
    main()
