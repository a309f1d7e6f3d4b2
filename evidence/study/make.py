"""A study of a finished run, answered by simulated raters of known skill; writes this folder again.

conceptlens demo --out runs/demo
python evidence/study/make.py runs/demo
"""

import sys
import tempfile
from pathlib import Path

from conceptlens import api
from conceptlens.core.files import write_json, write_text
from conceptlens.workflows.study.simulate import Simulated, simulate

HERE = Path(__file__).parent
RATERS = (
    Simulated("expert", knows=0.90, true=4.4, shuffled=1.7, noise=0.6),
    Simulated("student", knows=0.55, true=3.8, shuffled=2.3, noise=0.9),
    Simulated("guesser", knows=0.0, true=3.0, shuffled=3.0, noise=1.1),
    Simulated("asleep", knows=0.9, true=4.4, shuffled=1.7, lapses=1.0),
)
IMAGE_NOISE = 0.4


def main(run: str) -> None:
    with tempfile.TemporaryDirectory() as made_in:
        pack = api.make_study(run, out=Path(made_in) / "pack", n=200)
        size = (pack.folder / "study.html").stat().st_size
        for rater in RATERS:
            simulate(pack.key, rater, image_noise=IMAGE_NOISE).write(Path(made_in) / "in" / f"{rater.name}.json")
        done = api.analyze_study(pack.folder, [Path(made_in) / "in"], out=HERE)
    found = {each.rater: each for each in done.analysis.raters}
    lines = [
        "| rater | knows (put in) | known (found) | choices right (expected) | found, 95 % | true maps (expected) | "
        "found | shuffled (expected) | found | counted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    raw = []
    for rater in RATERS:
        told = found[rater.name]
        share = told.choice
        options = round(1 / (done.analysis.result.chance or 0.2))
        lines.append(
            f"| {rater.name} | {(1 - rater.lapses) * rater.knows:.0%} | {told.skill or 0:.0%} | "
            f"{rater.accuracy(options):.0%} | {share.text()} | {rater.mean(False, IMAGE_NOISE):.2f} | "
            f"{told.true or 0:.2f} | {rater.mean(True, IMAGE_NOISE):.2f} | {told.shuffled or 0:.2f} | "
            f"{'yes' if told.passed else 'no: ' + '; '.join(told.why_not)} |"
        )
        raw.append(
            {
                "rater": rater.name,
                "knows": (1 - rater.lapses) * rater.knows,
                "skill": told.skill,
                "accuracy": rater.accuracy(options),
                "found": share.model_dump(),
                "true": [rater.mean(False, IMAGE_NOISE), told.true],
                "shuffled": [rater.mean(True, IMAGE_NOISE), told.shuffled],
                "passed": told.passed,
            }
        )
    write_json(
        HERE / "recovered.json",
        {"images": pack.key.images, "catch": pack.key.catch, "bytes": size, "image_noise": IMAGE_NOISE, "raters": raw},
    )
    page = [
        "# A study whose raters are known",
        "",
        "**No person answered this study.** It shows that the analysis finds what was put in. A pack of the demo run "
        f"({pack.key.images} images with their own maps, {pack.key.catch} with shuffled ones) was answered by four "
        "simulated raters: each knows a stated share of the choices and guesses the rest, and rates true and shuffled "
        "maps around stated values with noise, plus noise that belongs to an image and that all of them see (deviation "
        f"{IMAGE_NOISE}). `asleep` answers without looking. Nothing here says that people find these maps good.",
        "",
        *lines,
        "",
        f"The page of 200 images is {size / 1e6:.1f} MB (goal: under 20 MB; these images have 128 pixels a side, and a "
        "test holds noisy ones of 384 under it as well).",
        "",
        "The table as the paper's Table 6, of the raters who looked:",
        "",
        done.markdown,
        "`python evidence/study/make.py RUN` writes this again; `analysis.json` and `recovered.json` hold all numbers.",
        "",
        "![the page: a choice](choice.webp) ![the page: a rating](rating.webp)",
        "",
    ]
    write_text(HERE / "README.md", "\n".join(page))
    for name in ("analysis.html", "table.md"):
        (HERE / name).unlink()


if __name__ == "__main__":
    main(sys.argv[1])
