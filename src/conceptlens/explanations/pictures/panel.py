"""The picture of one explanation: its image, the codes, and the maps of its concepts. Says only what the file says."""

from PIL import Image

from conceptlens.explanations.codes import UNNAMED
from conceptlens.explanations.document import ConceptMaps, EvidenceMap, Explanation, IndexMap, PatchMap
from conceptlens.explanations.pictures.overlay import evidence_overlay, index_overlay, overlay
from conceptlens.explanations.pictures.sheet import Key, Tile, sheet
from conceptlens.explanations.sentence import percent

NAMES = {"evidence": "evidence", "attention": "attention", "gradcam": "Grad-CAM"}
PLACELESS = "no map: absence has no place"
MOST_KEYS = 24


def panel(explanation: Explanation, picture: Image.Image) -> Image.Image:
    """One image's concepts."""
    about = next(each for each in explanation.classes if each.name == explanation.about)
    said = " and ".join(explanation.predicted) or "no class"
    truth = "" if explanation.truth is None else f"labeled {' and '.join(explanation.truth) or 'no class'}"
    first = [f"{about.name} {percent(about.probability)}", *([truth] if truth else [])]
    tiles = [Tile(picture, first)]
    opacity = explanation.drawing.opacity
    if explanation.index:
        tiles.append(
            Tile(
                index_overlay(picture, explanation.index, opacity),
                ["nearest code of each patch", _named(explanation.index)],
            )
        )
    for maps in explanation.maps:
        tiles += concept_tiles(explanation, maps, picture)
    keys = legend(explanation.index) if explanation.index else []
    return sheet(
        f"{explanation.image}: {said}",
        [capital(line) for line in (*explanation.cautions, explanation.sentence)],
        tiles,
        notes(explanation),
        keys=keys,
        bar=any(maps.attention or maps.gradcam for maps in explanation.maps),
        signed=any(maps.evidence for maps in explanation.maps),
    )


def concept_tiles(explanation: Explanation, maps: ConceptMaps, picture: Image.Image) -> list[Tile]:
    """The maps of one concept over the image."""
    reading = explanation.concept(maps.concept)
    decomposition = explanation.decomposition(explanation.account.minus if explanation.account else None)
    place = [each.name for each in explanation.concepts].index(maps.concept)
    label = "" if reading.label is None else f", labeled {'yes' if reading.label else 'no'}"
    lines = [maps.concept, f"read {percent(reading.probability)}{label}"]
    if not reading.applies or not reading.seen:
        lines.append("does not apply: not counted" if not reading.applies else "in no training image: not counted")
    elif decomposition:
        group = sum(
            value
            for each, value in zip(explanation.concepts, decomposition.values, strict=True)
            if each.group == reading.group and each.seen
        )
        lines.append(f"adds {decomposition.values[place]:+.2f}, its group {group:+.2f}".replace("-", "−"))
    if maps.placeless:
        return [Tile(picture, [*lines, PLACELESS])]
    tiles: list[Tile] = []
    for kind, patches in (("evidence", maps.evidence), ("attention", maps.attention), ("gradcam", maps.gradcam)):
        if patches:
            drawn = draw_map(picture, patches, explanation.drawing.opacity)
            doubt = explanation.map_captions.get(kind)
            tiles.append(Tile(drawn, [*lines, *map_lines(NAMES[kind], patches), *([doubt] if doubt else [])]))
    return tiles


def draw_map(picture: Image.Image, patches: PatchMap, opacity: float) -> Image.Image:
    """A map over the picture, in the colors of its kind."""
    draw = evidence_overlay if isinstance(patches, EvidenceMap) else overlay
    return draw(picture, patches, opacity)  # type: ignore[arg-type]


def map_lines(name: str, patches: PatchMap) -> list[str]:
    """What is written under a map: its kind and range, and of evidence the sum."""
    told = f"{name}, {largest(patches)}" if name else largest(patches)
    return [f"{told} logits", patches.words] if isinstance(patches, EvidenceMap) else [told]


def largest(patches: PatchMap) -> str:
    low, high = patches.range
    if isinstance(patches, EvidenceMap):  # what is nothing beside the largest amount is written as 0
        low, high = (value if abs(value) > max(abs(low), abs(high)) / 200 else 0 for value in patches.range)
    return f"{low:.2g} to {high:.2g}".replace("-", "−") if low or high else "zero everywhere"


def legend(index: IndexMap) -> list[Key]:
    """Codes with a name, most patches first, and the others together."""
    keys = [
        Key(entry.color, f"{entry.name}, {percent(entry.confidence)} (code {entry.code}, {count(entry.patches)})")
        for entry in index.legend
        if entry.confidence is not None
    ][:MOST_KEYS]
    rest = [entry for entry in index.legend if entry.confidence is None]
    if rest:
        words = f"{UNNAMED}: {len(rest)} codes in grays ({count(sum(entry.patches for entry in rest))})"
        keys.append(Key(rest[0].color, words))
    return keys


def count(patches: int) -> str:
    return f"{patches} patch{'' if patches == 1 else 'es'}"


def _named(index: IndexMap) -> str:
    named = sum(entry.confidence is not None for entry in index.legend)
    return f"{len(index.legend)} codes, {named} named"


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def notes(explanation: Explanation) -> list[str]:
    """What one must know to read the picture."""
    opacity = percent(explanation.drawing.opacity)
    codes = f", codes {opacity} opaque everywhere" if explanation.index else ""
    lines = [f"Maps are drawn over the image as the model sees it, {opacity} opaque at their largest value{codes}."]
    if any(maps.evidence for maps in explanation.maps):
        lines.append(
            "Evidence: what each patch adds to the concept's logit (blue) or takes away (orange, striped), over the "
            "image in gray. The map's sum and what is not placed (the bias, and a class token's part) add up to the "
            "logit."
        )
    if any(maps.attention for maps in explanation.maps):
        lines[0] += " Attention: the weight of each patch in the slot that the concept reads."
    if explanation.gradcam_at:
        lines[0] += f" Grad-CAM: what lifts the concept's score, taken at {explanation.gradcam_at}."
    if explanation.decompositions:
        minus = explanation.account.minus if explanation.account else None
        whole, rather = explanation.decomposition(minus), f" minus that of {minus}" if minus else ""
        against = (
            f"the average of {explanation.reference.images} {explanation.reference.split} images"
            if explanation.reference.what == "average image"
            else "scores of zero"
        )
        if whole:
            lines.append(
                f"“Adds” refers to the logit of {explanation.about}{rather}: {whole.total:+.2f} = {whole.base:+.2f} "
                f"for {against}, {sum(whole.values):+.2f} by all concepts.".replace("-", "−")
            )
    if explanation.index and not explanation.index.sample:
        lines.append("Codes have no names: there are no slots, or no sample of images, to name them by.")
    elif explanation.index:
        hidden = sum(entry.confidence is not None for entry in explanation.index.legend) - MOST_KEYS
        more = f" {hidden} more are in the file." if hidden > 0 else ""
        lines.append(
            "Codes are named by the concept, or group, that gets most of their patches in "
            f"{explanation.index.sample} images, with its share; the others stay unnamed.{more}"
        )
    lines += [f"No {NAMES.get(kind, kind)} map: {why}." for kind, why in explanation.without.items()]
    return lines
