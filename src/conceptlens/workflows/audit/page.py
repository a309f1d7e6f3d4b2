"""`audit/audit.html`: the audit as a page. One file, no scripts, nothing from the network."""

import io
from collections.abc import Iterable, Mapping

from PIL import Image

from conceptlens.evaluation.codebook.document import Audit, Codebook
from conceptlens.evaluation.codebook.pictures import name_of
from conceptlens.evaluation.subgroups.failures import Failures
from conceptlens.evaluation.subgroups.outcomes import ACCURACY, CONCEPTS, GAP
from conceptlens.pages.charts import Series, interval_bar, line_chart, share_bar
from conceptlens.pages.markup import Html, count, decimal, h, join, names, percent, table
from conceptlens.pages.pictures import data_address, encode_image
from conceptlens.pages.shell import render_page
from conceptlens.stats.estimates import Estimate

FOOTER = (
    "A research tool, not for diagnosis. Intervals are 95 % bootstrap intervals over images, or over patients where "
    "images come in groups. All numbers are in audit.json."
)
STYLE = ".sheet{max-width:100%;height:auto;border-radius:6px}.code{white-space:nowrap}"


def audit_page(audit: Audit, pictures: Mapping[str, bytes]) -> str:
    """The whole page."""
    sections = [
        ("subgroups", "Subgroups", _subgroups(audit.failures, pictures)),
        ("sets", "Prediction sets and selective prediction", _sets(audit.failures)),
        ("ood", "Images out of distribution", _ood(audit.failures)),
    ]
    if audit.codebook is not None:
        sections += [
            ("codes", "Codes", _codes(audit.codebook, pictures)),
            ("projection", "Codes among tokens", _picture(pictures, "codes", "Codes and a sample of tokens")),
            ("maps", "Index maps", _picture(pictures, "index-maps", "Nearest code of each patch")),
        ]
    if audit.concepts:
        sections.append(("concepts", "Concepts", _concepts(audit)))
    if audit.trust:
        sections.append(("trust", "Other measurements of this run", _trust(audit)))
    header = [
        h("p", f"conceptlens audit · run {audit.run}", class_="small"),
        h("h1", f"{audit.method} on {audit.data}, audited"),
        h("p", f"{count(audit.images)} {audit.split} images, from {audit.tokens}.", class_="result"),
        h("div", h("ul", (h("li", sentence) for sentence in audit.findings)), class_="watch"),
    ]
    return render_page(f"Audit of {audit.run}", header, sections, footer=FOOTER, style=STYLE)


def _subgroups(found: Failures, pictures: Mapping[str, bytes]) -> Html:
    if not found.groups:
        skipped = names(f"{name}: {why}" for name, why in found.skipped.items())
        return h(
            "p", "No metadata column makes subgroups of these images.", f" Left out: {skipped}." if skipped else None
        )
    rows = []
    for group in found.groups:
        cells = []
        for measure in (ACCURACY, CONCEPTS, GAP):
            each = group.measure(measure)
            bad = each is not None and each.p is not None and each.p < found.level
            cells.append(h("td", None if each is None else each.value.text(), class_="differs" if bad else None))
        first = group.measure(ACCURACY)
        value = first.value.value if first else None
        rows.append(
            h(
                "tr",
                h("th", f"{group.column}: {group.group}", scope="row"),
                h("td", count(group.images)),
                cells,
                h("td", decimal(first.p) if first else None),
                h("td", decimal(first.p_beyond_classes) if first else None),
                h("td", decimal(first.detectable) if first else None),
                h("td", None if first is None or value is None else interval_bar(value, first.value.interval, None)),
            )
        )
    head = (
        "Subgroup",
        "Images",
        "Class accuracy",
        "Concept accuracy",
        "Overconfidence",
        "p",
        "p beyond classes",
        "Detectable difference",
        "",
    )
    caption = f"Subgroups; p-values are corrected for {found.comparisons} comparisons"
    note = (
        "p: test of the difference in class accuracy from all other images. Beyond classes: the same, compared with "
        "what the classes of the subgroup lead one to expect. Detectable difference: the difference that four tests in "
        "five detect. Overconfidence is mean confidence less accuracy."
    )
    return join([table(caption, head, rows, class_="figures"), h("p", note, class_="note"), *_notes(found)])


def _notes(found: Failures) -> Iterable[Html]:
    lines = [*found.notes, *(f"{name} is left out: {why}." for name, why in found.skipped.items())]
    return [h("p", line, class_="note") for line in lines]


def _sets(found: Failures) -> Html:
    rows = [
        h(
            "tr",
            h("th", each.question, scope="row"),
            h("td", percent(each.wanted, 0)),
            h("td", _estimate(each.coverage), class_="differs" if each.holds is False else None),
            h("td", f"{percent(each.between[0])} to {percent(each.between[1])}" if each.between else None),
            h("td", _estimate(each.size)),
            h("td", _estimate(each.single)),
            h("td", percent(each.empty)),
        )
        for each in found.sets
    ]
    head = ("Question", "Nominal coverage", "Coverage", "Expected range", "Set size", "One answer", "Empty")
    parts = [table(f"Conformal sets, judged on {count(found.images)} images", head, rows, class_="figures")]
    selective = found.selective
    if selective is not None:
        points = [
            h(
                "tr",
                h("th", percent(each.target, 0), scope="row"),
                h("td", decimal(each.confidence)),
                h("td", _estimate(each.answered)),
                h("td", _estimate(each.error)),
            )
            for each in selective.operating_points
        ]
        caption = "Abstention below a confidence that was chosen on validation images"
        parts.append(table(caption, ("Target error", "Confidence", "Answered", "Error"), points, class_="figures"))
        curve = Series("error of the answers", [(100 * share, error) for share, error in selective.points], 1)
        flat = Series(
            "random abstention", [(0, selective.error.value or 0), (100, selective.error.value or 0)], 2, faint=True
        )
        chart = str(line_chart("Error against the share of images answered, in percent", [curve, flat]))
        # The chart's axis is made for epochs; here it counts percent of the images.
        parts.append(Html(chart.replace(">epoch<", ">% answered<").replace("at epoch", "at %")))
        parts.append(
            h(
                "p",
                f"Area under the curve {selective.area.text()}; that of an oracle {selective.oracle:.3f}.",
                class_="note",
            )
        )
    return join(parts)


def _ood(found: Failures) -> Html:
    ood = found.ood
    if ood is None:
        return h("p", "Not measured.")
    rows = [
        h("tr", h("th", each.image, scope="row"), h("td", decimal(each.p)), h("td", each.score, class_="word"))
        for each in ood.images
    ]
    parts = [
        h("p", ood.sentence(found.split)),
        h(
            "p",
            f"Images are compared with {ood.compared_with} and with {count(ood.training_images)} training images; the "
            f"thresholds come from "
            f"{count(ood.validation_images)} validation images.",
            class_="note",
        ),
    ]
    if rows:
        parts.append(table("Images with the largest scores", ("Image", "p", "Most unusual in"), rows, class_="figures"))
    return join(parts)


def _codes(codebook: Codebook, pictures: Mapping[str, bytes]) -> Html:
    top = max((each.share.value or 0 for each in codebook.codes), default=1) or 1
    rows = [
        h(
            "tr",
            h("th", h("span", f"{each.code}: {name_of(each)}", class_="code"), scope="row"),
            h("td", count(each.patches)),
            h("td", _estimate(each.share)),
            h("td", share_bar((each.share.value or 0) / top, codebook.even_share / top, empty="dormant" in each.kinds)),
            h("td", count(each.images)),
            h("td", _most(each.classes), class_="word"),
            h("td", decimal(each.class_dependence, 2)),
            h("td", decimal(each.border, 2) if each.on_object is None else percent(each.on_object, 0)),
            h("td", names(f"{kind}: {concept}" for kind, concept in each.concepts.items()), class_="word"),
            h("td", [h("span", kind, class_="flag") for kind in each.kinds], class_="word"),
        )
        for each in codebook.codes
    ]
    place = "On the object" if any(each.on_object is not None for each in codebook.codes) else "Border"
    head = (*("Code", "Patches", "Share", "", "Images", "Most in", "Class explains", place, "Significant matches", ""),)
    caption = f"{codebook.size} codes; a tick marks an even share"
    note = (
        "Border: how much more often the code is at the outermost patches than patches are on average. Class "
        "explains: share of the variation "
        "between images. A match is significant if chance finds one as strong in fewer than one of twenty, after "
        "correction."
    )
    sheet = _picture(pictures, "prototypes", "Patches nearest to each code")
    return join([sheet, table(caption, head, rows, class_="figures"), h("p", note, class_="note")])


def _most(classes: Mapping[str, float]) -> str:
    best = sorted(classes.items(), key=lambda pair: -pair[1])[:2]
    return ", ".join(f"{name} {share:.1%}" for name, share in best)


def _concepts(audit: Audit) -> Html:
    rows = [
        h(
            "tr",
            h("th", each.concept, scope="row"),
            h("td", percent(each.holds)),
            h("td", percent(each.predicted)),
            h("td", decimal(each.auc)),
            h("td", decimal(each.auc_within_class)),
            h("td", decimal(each.influence, 2)),
            h("td", decimal(each.slot_mass, 2)),
            h("td", each.closest and f"{each.closest} ({each.closest_correlation:.2f})", class_="word"),
            h("td", [h("span", kind, class_="flag") for kind in each.kinds], class_="word"),
        )
        for each in audit.concepts
    ]
    head = ("Concept", "Present", "Predicted", "AUC", "within class", "Influence", "Slot mass", "Closest other", "")
    note = "Influence and slot mass are relative to an even share; closest other by correlation of scores."
    return join([table("Concepts", head, rows, class_="figures"), h("p", note, class_="note")])


def _trust(audit: Audit) -> Html:
    return join([h("h3", each.file) + h("ul", (h("li", line) for line in each.says)) for each in audit.trust])


def _estimate(estimate: Estimate) -> str:
    return estimate.text()


def _picture(pictures: Mapping[str, bytes], name: str, about: str) -> Html:
    if name not in pictures:
        return h("p", "No picture could be drawn.", class_="note")
    image = Image.open(io.BytesIO(pictures[name])).convert("RGB")
    address = data_address(encode_image(image, "JPEG", quality=85), "image/jpeg")
    return h("img", src=address, alt=about, width=image.width, height=image.height, class_="sheet")
