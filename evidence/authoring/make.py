"""Drafts two concept files from answers written by hand, and judges one with images. Writes this folder again.

    python evidence/authoring/make.py [--images]

With `--images` the part that looks at images is done again too, in some minutes. No language model was asked:
`answers/*.yaml` hold what one might have said, with the faults such answers have.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens import api
from conceptlens.core.files import read_json, read_yaml, write_json, write_text
from conceptlens.recipes.parse import load_recipe
from conceptlens.workflows.authoring.draft import Drafted
from conceptlens.workflows.authoring.images.findings import ImageFindings
from conceptlens.workflows.authoring.language_model.record import Answer, Record

HERE = Path(__file__).parent


def draft(name: str) -> Drafted:
    """Paste the answers, as a person would, round by round."""
    told: dict[str, Any] = read_yaml(HERE / "answers" / f"{name}.yaml")
    folder = HERE / name
    record = Record(folder / "answers.md", {key: Answer(text) for key, text in told["answers"].items()})
    record.write()
    words = {"classes": told["classes"], "domain": told["domain"], "out": folder, "checker": "a second hand"}
    first = api.draft_concepts(**words)
    assert not first.to_mend, first.to_mend
    record = Record.open(folder / "answers.md")
    text = record.path.read_text("utf-8")
    for ask in first.waiting:
        prompt = text.split(f"## ask: {ask}\n")[1].split("\n## answer")[0]
        lines = [line.removeprefix("> ") for line in prompt.splitlines()]
        listed = [line.split(". ", 1)[1].split(" | ")[0] for line in lines if " | " in line and line[0].isdigit()]
        against = told["objections"].get(ask, {})
        unknown = set(against) - set(listed)
        assert not unknown, unknown
        record.answers[ask] = Answer(
            json.dumps([{"number": n, **against.get(concept, {})} for n, concept in enumerate(listed, 1)])
        )
    record.write()
    made = api.draft_concepts(**words)
    assert made.judgement is not None, made.text()
    return made


def page(name: str, made: Drafted) -> list[str]:
    found = made.judgement
    assert found is not None
    lines = [
        f"## {name}",
        "",
        f"{found.said} features were said of {len(found.classes)} classes; as concepts, same names made one, that is "
        f"{len(found.kept) + len(found.gone)}. {len(found.kept)} stay ([the file]({name}/concepts.yaml)), "
        f"{len(found.gone)} go:",
        "",
        "| concept | text | why it goes |",
        "| --- | --- | --- |",
    ]
    for each in found.gone:
        reason = f"**{each.code}**: {each.reason}" + (f"; merged into {each.merged_into}" if each.merged_into else "")
        lines.append(f"| {each.concept} | {each.text} | {reason} |")
    lines += ["", *(f"- {note}" for note in found.notes), ""]
    return lines


def flipped_labels() -> dict[str, Any]:
    """Drawn images with a tenth of labels made wrong: how many of the labels to review first are among them."""
    settings = {"source": "shapes", "shapes": {"n": 600, "size": 96, "label_noise": 0.1}}
    from conceptlens.data.sources.open import open_source

    noisy, concepts = open_source(load_recipe({"data": settings}).data, None)
    clean, _ = open_source(load_recipe({"data": {**settings, "shapes": {"n": 600, "size": 96}}}).data, None)
    wrong = noisy.examples.concepts != clean.examples.concepts
    write_text(HERE / "shapes.yaml", concepts.to_yaml())
    found = api.check_concepts(HERE / "shapes.yaml", data=settings, n=600)
    (HERE / "shapes.yaml").unlink()
    assert found.images is not None
    place = {name: n for n, name in enumerate(noisy.examples.ids)}
    hits = []
    for each in found.images.review:
        group = next(group for group in concepts.groups if each.group.split(":")[0] == group.name)
        hits.append(bool(wrong[place[each.image], group.concepts].any()))
    by_chance = float(np.mean([wrong[:, group.concepts].any(1).mean() for group in concepts.groups]))
    return {"images": 600, "reviewed": len(hits), "wrong_among_reviewed": sum(hits), "share_wrong_by_chance": by_chance}


def look_at_images() -> None:
    """The slow part: what images say, kept as JSON."""
    api.check_concepts("blood-cells", data="blood-cells", n=600, out=HERE / "blood-cells-with-images")
    (HERE / "blood-cells-with-images" / "judgement.html").unlink()
    write_json(HERE / "flipped-labels.json", flipped_labels())


def main(again: bool) -> None:
    started = time.perf_counter()
    lines = [
        "# Concept files drafted and filtered",
        "",
        "**No language model was asked for this page.** There was no endpoint on the machine that made it. The answers "
        "in `answers/` were written by hand as a model might have given them, with deliberate faults: talk around the "
        "JSON, a trailing comma, a list that breaks off, class names in disguise, things no image shows, two ways to "
        "say the same, one sentence too many. What the filters did with them is real. "
        "`python evidence/authoring/make.py --images` writes this folder again.",
        "",
    ]
    for name in ("white-blood-cells", "skin-lesions"):
        lines += page(name, draft(name))
    if again:
        look_at_images()
    images = ImageFindings.model_validate(read_json(HERE / "blood-cells-with-images" / "judgement.json")["images"])
    weakest = sorted(images.concepts, key=lambda each: each.separability or 1)[:5]
    lines += [
        "## What images say",
        "",
        f"The shipped concept set `blood-cells` on built-in images: {images.how} The least separable concepts:",
        "",
        "| concept | with / without | separable (area) | within a class | neighbors disagree | by chance |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in weakest:
        within = "–" if each.within_class is None else f"{each.within_class:.2f}"
        lines.append(
            f"| {each.concept} | {each.positive} / {each.negative} | {each.separability:.2f} | {within} | "
            f"{each.disagreement:.0%} | {each.by_chance:.0%} |"
        )
    flips = read_json(HERE / "flipped-labels.json")
    lines += [
        "",
        f"On {flips['images']} drawn images a tenth of the labels was made wrong. Of the {flips['reviewed']} labels to "
        f"review first, {flips['wrong_among_reviewed']} are on groups that are wrong; picked at random it would be "
        f"{flips['share_wrong_by_chance']:.0%}.",
        "",
    ]
    write_text(HERE / "README.md", "\n".join(lines))
    print(f"written in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main("--images" in sys.argv)
