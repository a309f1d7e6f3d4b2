"""`results.json.gz` and `speed.json` as the table of what the encoder must reach, and a table of all probes.

python -m pretraining.probe.table evidence/builtin-encoder
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json

OURS, LITE, RANDOM, WITHOUT = "builtin/vit", "efficientnet_lite0", "random", "without blood cells"
SHOWN = {
    OURS: "`builtin/vit`",
    WITHOUT: "the same without blood cells",
    LITE: "EfficientNet-Lite0",
    "resnet50": "ResNet50",
    "mobile_sam": "MobileSAM",
    RANDOM: "random ViT",
}
SETS = {"imagenette": "Imagenette", "blood": "blood cells", "idrid": "IDRiD", "ham": "HAM10000", "cub": "CUB"}
HEAD = ("measure", "must", "measured", "verdict", "who saw the images")
SEEN = {
    "imagenette": "not seen by the student (it saw the training images, with labels); by the teachers, with labels",
    "blood": "not seen by the student (it saw the training images, with labels); not by the teachers",
    "idrid": "not seen by anyone, nor anything like it",
    "ham": "not seen by anyone, nor anything like it",
    "cub": "not seen by the student; some by the teachers, in ImageNet",
    "unseen": "not seen by the student, nor other images of these classes; by the teachers, with labels",
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def percent(score: dict[str, Any]) -> str:
    return f"{100 * score['mean']:.1f} ± {100 * score['sd']:.1f}"


def verdict(reached: bool) -> str:
    return "reached" if reached else "**not reached**"


class Reach:
    """The rows of the table, from what was measured; what is missing has no row."""

    def __init__(self, results: dict[str, Any], speed: dict[str, Any] | None) -> None:
        self.results, self.speed = results, speed

    def score(self, images: str, model: str, question: str = "class", measure: str = "accuracy") -> dict[str, Any]:
        found: dict[str, Any] = self.results["probes"][f"{images}/{model}"][question][measure]
        return found

    def has(self, images: str, model: str = OURS) -> bool:
        return f"{images}/{model}" in self.results["probes"]

    def beside(self, images: str, question: str, measure: str, models: Sequence[str]) -> str:
        return ", ".join(
            f"{SHOWN[model]} {percent(self.score(images, model, question, measure))}"
            for model in models
            if self.has(images, model)
        )

    def imagenette(self) -> list[list[str]]:
        if not self.has("imagenette"):
            return []
        share = self.score("imagenette", OURS)["mean"] / self.score("imagenette", LITE)["mean"]
        said = f"{self.beside('imagenette', 'class', 'accuracy', (OURS, LITE, RANDOM))}: {share:.1%}"
        must = "≥ 95 % of EfficientNet-Lite0's accuracy"
        return [["Imagenette test, linear probe", must, said, verdict(share >= 0.95), SEEN["imagenette"]]]

    def blood(self) -> list[list[str]]:
        if not self.has("blood"):
            return []
        rows = []
        for question, words in (("class", "of class"), ("attributes", "of the 11 attributes, mean")):
            for measure in ("accuracy", "balanced_accuracy"):
                above = (
                    self.score("blood", OURS, question, measure)["mean"]
                    > self.score("blood", LITE, question, measure)["mean"]
                )
                said = self.beside("blood", question, measure, (OURS, LITE, WITHOUT, RANDOM))
                what = f"blood cells test, linear probe {words}, {measure.replace('_', ' ')}"
                rows.append([what, "above EfficientNet-Lite0", said, verdict(above), SEEN["blood"]])
        return rows

    def others(self) -> list[list[str]]:
        return [
            [
                f"{SETS[name]} test, linear probe, balanced accuracy",
                "reported",
                self.beside(name, "class", "balanced_accuracy", (OURS, LITE, RANDOM)),
                "reported",
                SEEN[name],
            ]
            for name in ("idrid", "ham", "cub")
            if self.has(name)
        ]

    def prompts(self) -> list[list[str]]:
        rows = []
        names = {
            "imagenette": ("prompts alone, Imagenette's ten class names (seen in training)", "≥ 80 %"),
            "unseen": ("prompts alone, 20 Tiny-ImageNet classes the student never saw", "reported against chance"),
        }
        for name, (what, must) in names.items():
            if name not in self.results["prompts"]:
                continue
            found = self.results["prompts"][name]
            low, high = found["interval"]
            said = f"{found['accuracy']:.1%} (95 % interval {low:.1%} to {high:.1%}), chance {found['chance']:.0%}"
            judged = verdict(found["accuracy"] >= 0.8) if name == "imagenette" else "reported"
            rows.append([what, must, said, judged, SEEN[name]])
        return rows

    def patches(self) -> list[list[str]]:
        found = self.results["patches"]
        if OURS not in found or "resnet50" not in found:
            return []
        order = [model for model in (OURS, "resnet50", LITE, "mobile_sam", RANDOM) if model in found]
        rows = []
        for part, words in (("own", "of each image's own tokens"), ("shared", "shared by all images")):
            said = ", ".join(f"{SHOWN[model]} {found[model][part]['mean']:.3f}" for model in order)
            said += f"; a box in the middle {found[OURS]['centered_box']['mean']:.3f}"
            better = found[OURS][part]["mean"] > found["resnet50"][part]["mean"]
            what = f"bird foreground, first principal component {words}, against the box: mean IoU"
            rows.append([what, "better than ResNet50's last grid", said, verdict(better), SEEN["cub"]])
        ranks = ", ".join(
            f"{SHOWN[model]} {found[model]['rank']['effective_centered']:.1f} "
            f"({'×'.join(map(str, found[model]['native_grid']))})"
            for model in order
        )
        what = "effective rank of the patch matrix per image, centered, on the network's own grid (CUB)"
        return [*rows, [what, "reported", ranks, "reported", SEEN["cub"]]]

    def speeds(self) -> list[list[str]]:
        if self.speed is None:
            return []
        row = next(row for row in self.speed["rows"] if row["name"] == OURS)
        images, share = row["best_images_per_second"], row["share_of_matmul"]
        least, rate = self.speed["promise"]["images_per_second"], self.speed["promise"]["share_of_matmul"]
        where = f"{self.speed['machine']['cpu']}, {self.speed['machine']['threads']} threads, fp32"
        matmul = f"{share:.0%} of {self.speed['matmul_gigaflops']:.0f} GFLOP/s"
        rows = [
            [f"CPU ({where}), images/s", f"≥ {least}", f"{images:.0f}", verdict(images >= least), "–"],
            ["share of the fp32 matmul rate of the same run", f"≥ {rate:.0%}", matmul, verdict(share >= rate), "–"],
        ]
        if "text" in self.speed:
            phrases, least = self.speed["text"]["phrases_per_minute"], self.speed["promise"]["phrases_per_minute"]
            rows.append(
                ["`builtin/text`, phrases a minute", f"≥ {least:,}", f"{phrases:,.0f}", verdict(phrases >= least), "–"]
            )
        return rows

    def markdown(self) -> str:
        rows = self.imagenette() + self.blood() + self.others() + self.prompts() + self.patches() + self.speeds()
        return table(HEAD, rows)


def all_probes(results: dict[str, Any]) -> str:
    """Accuracy and balanced accuracy of every set and network."""
    rows = []
    for name, shown in SETS.items():
        for question in ("class", "attributes"):
            for model, words in SHOWN.items():
                found = results["probes"].get(f"{name}/{model}", {}).get(question)
                if found:
                    what = f"{shown}, 11 attributes" if question == "attributes" else shown
                    rows.append([what, words, percent(found["accuracy"]), percent(found["balanced_accuracy"])])
    return table(("set", "network", "accuracy", "balanced accuracy"), rows)


def markdown(folder: Path) -> str:
    """The table of a folder with `results.json.gz`, and `speed.json` as `bench/encoder.py` writes it."""
    results, speed = read_json(folder / "results.json.gz"), folder / "speed.json"
    return Reach(results, read_json(speed) if speed.is_file() else None).markdown()


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])))
    print()
    print(all_probes(read_json(Path(sys.argv[1]) / "results.json.gz")))
