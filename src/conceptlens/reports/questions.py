"""What a person who has to rely on the model asks, in order, each with a short answer and where to read on."""

from collections.abc import Iterator

from conceptlens.evaluation.examination import Side
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.pages.markup import Html, count, h, names, of_hundred, percent, prose
from conceptlens.reports.material import Material, value_of
from conceptlens.reports.measures import most_frequent
from conceptlens.stats.wilson import wilson

TOLD = {
    "image-labels": "People labeled the concepts of each image.",
    "class-labels": "The class of each image, and nothing about concepts.",
    "class-table": "A table gave every image of a class the same concepts; no person looked at single images for them.",
    "text": "Concepts are texts; no image was labeled with them, so a text encoder decides what they mean.",
}
EXAMINE = "Not examined yet: run `conceptlens trust RUN`."
NO_CONCEPTS: dict[Side, str] = {
    "corrections": "It has no concepts: there is nothing to correct.",
    "maps": "It has no concepts, and no maps of any. `conceptlens decompose RUN IMAGES` shows what it learned.",
}
LOOKS: tuple[Side, ...] = ("maps", "faithfulness")
# What an examination found, in a sentence; its own words, with all numbers, stand at the top of the page.
ANSWERS: dict[Side, tuple[str, str]] = {  # it passed, something was found
    "corrections": (
        "Yes. It uses what it is told about its concepts, whether right or wrong.",
        "Careful. It does not use what it is told about its concepts as it should.",
    ),
    "maps": (
        "Its maps point at what people marked better than maps that know none of the concepts.",
        "Careful. Its maps are not shown to point at what people marked.",
    ),
    "faithfulness": (
        "What its maps mark is what it used: other places matter less to its answers.",
        "Careful. Its maps are not shown to mark what it used: other places matter as much to its answers.",
    ),
}
NEXT: dict[Side, str] = {  # where something was found
    "corrections": "Before people correct it in use, improve its concepts (more labels, longer training), and run "
    "`conceptlens trust RUN` again.",
    "leakage": "Do not read its concept scores as concepts alone: they also carry the class (leakage, above).",
    "maps": "Do not show its maps as the place of a concept.",
    "calibration": "Do not take its stated probabilities as they are: `conceptlens audit RUN` shows their errors.",
    "subgroups": "Look at the images that it fails (`conceptlens audit RUN`), and train with more images of that kind.",
    "faithfulness": "Do not show its maps as reasons for its answers.",
}
WEAK_CLASS = 0.5  # recall below which a class is named as a weakness


def questions(material: Material) -> Html:
    """Section 1."""
    rows = (
        ("How good is it?", how_good(material)),
        ("Can I correct it?", [_verdict(material, "corrections")]),
        ("Which patients or images does it fail?", [*_weak_classes(material), _verdict(material, "subgroups")]),
        ("What does it look at?", list(dict.fromkeys(_verdict(material, side) for side in LOOKS))),
        ("What was it trained on?", what_it_was_told(material)),
        ("What should I do next?", next_steps(material)),
    )
    return h(
        "dl", [(h("dt", h("strong", title)), [h("dd", prose(line)) for line in lines if line]) for title, lines in rows]
    )


def how_good(material: Material) -> list[str]:
    """Balanced accuracy with its interval, against chance, against the most frequent class, against a black box."""
    value, interval = material.number("class.balanced_accuracy"), material.interval("class.balanced_accuracy")
    if value is None:
        return ["It could not be measured: no image that was held back has a class."]
    several = material.task == "multilabel"
    guess = 0.5 if several else 1 / max(len(material.classes), 1)
    sure = f" ({material.confidence} interval {percent(interval[0])} to {percent(interval[1])})" if interval else ""
    lines = [
        f"Balanced accuracy {percent(value)}{sure} on {count(material.number('class.n'))} {material.images}; a guess "
        f"gives {percent(guess)}."
    ]
    common, accuracy = (None if several else most_frequent(material)), material.number("class.accuracy")
    if common is not None and accuracy is not None:
        lines.append(f"Accuracy {percent(accuracy)}; always naming the most frequent class gives {percent(common)}.")
    other = material.number("black_box.balanced_accuracy")
    if other is not None:
        verdict = (
            "not clearly different from"
            if interval and interval[0] <= other <= interval[1]
            else ("above" if value > other else "below")
        )
        bar = f"a black box ({percent(other)}), a linear classifier on the encoder's image vectors"
        if "concept" not in material.metrics:  # a black box itself
            bar = f"a linear classifier on the encoder's image vectors ({percent(other)})"
        lines.append(f"Its balanced accuracy is {verdict} that of {bar}.")
    if (limit := _limit(material)) is not None:
        lines.append(
            f"Its concepts limit it: with all of their labels right, a class head has a balanced accuracy of "
            f"{percent(limit)}."
        )
    spread = [fold.get("class.balanced_accuracy") for fold in material.metrics.get("per_fold", [])]
    known = [value for value in spread if value is not None]
    if known:
        lines.append(f"The {len(known)} folds lie between {percent(min(known))} and {percent(max(known))}.")
    if recalls := list(_recalls(material)):
        lines.append(
            f"Images of each class that it finds, with {material.confidence} intervals that take images as "
            f"independent: {names(recalls)}."
        )
    return lines


def _limit(material: Material) -> float | None:
    """What the true concept labels allow, where a black box is better: the concepts do not say enough of the class."""
    allowed, other = material.number("ceiling.balanced_accuracy"), material.number("black_box.balanced_accuracy")
    limited = "concept" in material.metrics and allowed is not None and other is not None and allowed < other
    return allowed if limited else None


def _recalls(material: Material) -> Iterator[str]:
    """Of each class how many images are found, of how many."""
    confidence = value_of(material.recipe, "metrics.confidence") or 0.95
    for row in material.metrics["class"].get("per_class", []):
        if row.get("recall") is not None:
            low, high = wilson(row["recall"], row["support"], confidence)
            right = f"{row['recall'] * row['support']:,.0f} of {row['support']:,}"
            yield f"{row['class']}: {right} ({100 * low:.0f} to {percent(high, 0)})"


def _weak_classes(material: Material) -> list[str]:
    rows = material.metrics["class"].get("per_class", [])
    weak = [row["class"] for row in rows if row.get("recall") is not None and row["recall"] < WEAK_CLASS]
    return [f"It misses more than half of the images of class {names(weak)}."] if weak else []


def _verdict(material: Material, side: Side) -> str:
    if "concept" not in material.metrics and side in ("corrections", *LOOKS):
        return NO_CONCEPTS["corrections" if side == "corrections" else "maps"]
    if material.trust is None:
        return EXAMINE
    verdict: Verdict = material.trust.verdicts[side]
    if verdict.outcome == "unmeasured":
        return f"Not measured. {verdict.reason}"
    if side not in ANSWERS:
        return "Careful. " * (verdict.outcome == "finding") + verdict.reason
    return " ".join([ANSWERS[side][verdict.outcome == "finding"], *_in_numbers(side, material.trust.numbers[side])])


def _in_numbers(side: Side, numbers: Numbers) -> Iterator[str]:
    """The numbers that a person can picture."""
    shares = {name: of_hundred(value) for name, value in numbers.items() if value is not None}
    if side == "corrections" and {"untouched", "truth", "wrong"} <= shares.keys():
        yield (
            f"Its class is right in {shares['untouched']} of 100 images; in {shares['truth']} when it is told the "
            f"truth about every concept, in {shares['wrong']} when it is told only wrong things."
        )
    if side == "maps" and {"pointing", "best_blind_pointing"} <= shares.keys():
        yield (
            f"The strongest spot lies inside in {shares['pointing']} of 100 maps, and in "
            f"{shares['best_blind_pointing']} of the best ones that know none of the concepts."
        )


def what_it_was_told(material: Material) -> list[str]:
    """Where concept labels came from, and how many there are."""
    supervision = str(material.info.get("supervision"))
    if "concept" not in material.metrics:
        supervision = "class-labels"
    elif material.concepts.by_class and material.number("concept.auc_within_class") is None:
        supervision = "class-table"  # within a class nothing varies
    lines = [TOLD.get(supervision, supervision)]
    if supervision == "image-labels" and (table := _groups_of_a_table(material)):
        lines.append(f"But a table gave every image of a class the same {names(table)}.")
    counts = material.card.get("concept_counts") or []
    shown = sorted((n, name) for n, name in zip(counts, material.concepts.names, strict=False) if n >= 0)
    if shown and "concept" in material.metrics:
        never = len(material.concepts) - len(shown)
        lines.append(
            f"The rarest concept in its training images is {shown[0][1]!r} ({shown[0][0]:,} images)"
            + (f"; {never} were never labeled." if never else ".")
        )
    bypass, also = material.info.get("bypass"), "also " * ("concept" in material.metrics)
    lines.append(f"The class {also}reads {bypass}." if bypass else "The class reads nothing but these concepts.")
    return lines


def _groups_of_a_table(material: Material) -> list[str]:
    """Groups that the concept file gives for each class, and that vary within no class."""
    given = {group for said in material.concepts.by_class.values() for group in said}
    rows = value_of(material.metrics, "concept.per_group") or []
    fixed = [row["group"] for row in rows if row.get("auc") is not None and row.get("auc_within_class") is None]
    return [group for group in fixed if group in given]


def next_steps(material: Material) -> Iterator[str]:
    """The most useful things to do now."""
    if "concept" not in material.metrics:
        yield "Name concepts (`conceptlens concepts draft`), label some images (`conceptlens label`), train with them."
    if _limit(material) is not None:
        yield (
            "Describe what tells the classes apart with further concepts (`conceptlens concepts draft`, `conceptlens "
            "label`). Until then a `black-box` is right more often; evidence-cbm's `method.residual: true` lets the "
            "class read the image past the concepts, and every report says so."
        )
    at_chance = value_of(material.metrics, "concept.groups_at_chance.names") or []
    if at_chance:
        yield f"Label more images of, or leave out, what it cannot read yet: {names(at_chance)} (`conceptlens label`)."
    if material.split == "val":
        yield "Hold images back for a test, or set `data.folds: 5`: these numbers chose the model and are optimistic."
    if (material.number("class.n") or 0) < 100:
        yield "Test on more images: with fewer than 100 the interval is wide."
    if material.trust is None:
        yield "Run `conceptlens trust RUN`: corrections, leakage, maps, calibration, subgroups."
    else:
        for side, verdict in material.trust.verdicts.items():
            if verdict.outcome == "finding":
                yield NEXT[side]
    yield "Try it on images of another clinic or camera: `conceptlens evaluate RUN --data OTHER`."
