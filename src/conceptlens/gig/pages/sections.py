"""Further parts of a run's page: validation, trajectories, which concepts stay under noise and attack."""

from collections.abc import Sequence

from conceptlens.gig.validation.robustness import Kept
from conceptlens.gig.validation.validation import LayerCurves, Validation
from conceptlens.pages.markup import Html, decimal, h, join, percent, table, table_row

WIDTH, HEIGHT = 220, 120
LOOKS = ("one", "two", "three", "four", "five")


def validation_section(found: Validation) -> Html:
    """Areas and curves of each layer, and the outputs for reconstructions."""
    order = [row.order for row in found.classes[0].orders] if found.classes else []
    key = h(
        "p",
        (
            h("span", h("i", class_="swatch", style=f"background:var(--{look})"), name)
            for name, look in zip(order, LOOKS, strict=False)
        ),
        class_="key small",
    )
    agree = table(
        "Outputs of the network for reconstructions X̃, compared with those for X",
        ["layer", "same class", "KL, nats", "relative l2", "zeros", "images"],
        [
            table_row(
                *(row.layer, percent(row.same_class, 0), decimal(row.divergence), decimal(row.relative_l2)),
                *(percent(row.zero_share, 2), row.images),
            )
            for row in found.agreement
        ],
        class_="figures",
    )
    return join(
        [
            h(
                "p",
                "Concepts are inserted, or deleted, in the order of their contributions, in random order, and in the "
                "order of gradient × input. In a good order insertion rises early and deletion falls early: the larger "
                "the difference of their areas, the better the order. "
                + (
                    "No concept was learned from these images."
                    if found.held_out
                    else "Concepts were learned from these images, too: on others they may do worse."
                ),
            ),
            key,
            _areas("To the output", found.classes),
            _areas("Between layers: the projection score", found.between) if found.between else None,
            h("div", [_small(row) for row in (*found.classes, *found.between)], class_="crops curves"),
            agree,
        ]
    )


def _areas(caption: str, rows: Sequence[LayerCurves]) -> Html:
    names = [row.order for row in rows[0].orders]
    body = [
        table_row(
            row.layer if row.to is None else f"{row.layer} → {row.to}",
            *(
                f"{decimal(curves.insertion_area)} − {decimal(curves.deletion_area)} = {decimal(curves.difference)}"
                for curves in row.orders
            ),
        )
        for row in rows
    ]
    return table(f"{caption}; area of insertion − deletion", ["layer", *names], body, class_="figures")


def _small(row: LayerCurves) -> Html:
    """Insertion (full) and deletion (dashed) of every order."""
    values = [value for curves in row.orders for value in (*curves.insertion, *curves.deletion)]
    low, high = min(0.0, *values), max(1e-9, *values)
    lines = []
    for curves, look in zip(row.orders, LOOKS, strict=False):
        for curve, dash in ((curves.insertion, None), (curves.deletion, "4 3")):
            points = " ".join(
                f"{WIDTH * place / (len(curve) - 1):.1f},{HEIGHT - HEIGHT * (value - low) / (high - low):.1f}"
                for place, value in enumerate(curve)
            )
            style = f"fill:none;stroke:var(--{look});stroke-width:1.6"
            lines.append(h("polyline", points=points, style=style, stroke_dasharray=dash))
    name = row.layer if row.to is None else f"{row.layer} → {row.to}"
    drawn = h(
        "svg",
        h("title", f"{name}: insertion and deletion"),
        lines,
        viewBox=f"-4 -4 {WIDTH + 8} {HEIGHT + 8}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
    )
    return h("figure", drawn, h("figcaption", f"{name}: 0 to {high:.2g}; deletion dashed"))


def trajectory_section(found: Sequence[tuple[str, float, Sequence[tuple[str, str]]]]) -> Html:
    """Samples on the way from a concept's center to its farthest member.

    Args:
        found: Title, cosine distance of the farthest, and words and address of each stop.
    """
    parts = [
        h(
            "article",
            h("h4", title),
            h("p", f"Cosine distance of the farthest sample: {distance:.2f}", class_="small"),
            h(
                "div",
                (h("figure", h("img", src=to, alt=words), h("figcaption", words)) for words, to in stops),
                class_="crops",
            ),
            class_="card",
        )
        for title, distance, stops in found
    ]
    lead = (
        "Samples from the center of a concept's cluster to its farthest one. They show whether the concept is one "
        "thing or several."
    )
    return join([h("p", lead), *parts])


def kept_section(title: str, rows: Sequence[Kept]) -> Html:
    """Which concepts stay when an image is disturbed."""
    body = [table_row(row.layer, row.first, row.kept, row.alike) for row in reversed(rows)]
    alike = f"similar after (cosine ≥ {rows[0].threshold:g})" if rows else ""
    head = ["layer", "concepts before", "the same after", alike]
    return table(title, head, body, class_="figures")
