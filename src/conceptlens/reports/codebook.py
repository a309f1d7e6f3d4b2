"""Use of codes and slots."""

from conceptlens.concepts.part_map import part_map
from conceptlens.pages.charts import share_bar
from conceptlens.pages.markup import Html, h, join, names, percent, quoted
from conceptlens.reports.material import Material, value_of
from conceptlens.reports.prior import prior_drawing

MOST_BARS = 64


def inside(material: Material) -> Html:
    """Section 6."""
    parts = [_codes(material), _slots(material), _prior(material)]
    if not any(parts):
        return h("p", "This method has neither a codebook nor slots.")
    return join(parts)


def _prior(material: Material) -> Html | None:
    if material.prior is None:
        return None
    option = str(value_of(material.recipe, "method.parts") or "auto")
    return prior_drawing(material.prior, part_map(material.concepts, option, bare_is_whole=True).parts)


def _codes(material: Material) -> Html | None:
    found = material.metrics.get("codebook")
    if not found:
        return None
    dead = found.get("dead") or []
    told = f"The codebook holds {found['codes']} codes: vectors to which patches are pulled in training. "
    if dead:
        told += (
            f"{len(dead)} of them are dead, nearest to no patch of these images: number {names(map(str, dead), 40)}."
        )
    else:
        told += "Each is nearest to some patch: none is dead."
    named = material.annotations.get("code", {})
    people = [
        f"code {code} {quoted(said.called)} ({said.author}, {said.time[:10]})"
        for code, said in sorted(named.items(), key=lambda item: item[0].zfill(9))
    ]
    return join([h("p", told), h("p", f"Names that people gave: {names(people, 40)}.") if people else None])


def _slots(material: Material) -> Html | None:
    found = material.metrics.get("slots")
    if not found or not found.get("slot_mass"):
        return None
    mass, empty = found["slot_mass"], found.get("empty_slots") or []
    slots = material.slot_names
    told = (
        f"Patches are gathered in {len(mass)} slots, and each concept reads one. A bar is the share of all patches "
        f"that a slot receives; the vertical line is an even share, {percent(1 / len(mass))}. "
    )
    if empty:
        listed = names(quoted(slots[slot]) for slot in empty)
        told += f"Empty: {listed}. A concept that reads an empty slot sees hardly anything of the image."
    else:
        told += "None is empty."
    order = list(range(len(mass)))
    cut = None
    if len(mass) > MOST_BARS:
        ranked = sorted(order, key=lambda slot: (-mass[slot], slot))
        order = sorted([*ranked[: MOST_BARS // 2], *ranked[-MOST_BARS // 2 :]])
        cut = h("p", f"Shown are the {MOST_BARS // 2} fullest and the {MOST_BARS // 2} emptiest slots.", class_="note")
    largest = max(mass) or 1.0
    items = [
        h(
            "li",
            h("span", slots[slot], " ", h("strong", "empty", class_="flag") if slot in empty else None),
            share_bar(mass[slot] / largest, 1 / len(mass) / largest, empty=slot in empty),
            h("span", percent(mass[slot]), class_="value"),
        )
        for slot in order
    ]
    return join([h("p", told), h("ul", items, class_="bars"), cut])
