"""What made this run: enough to make it again, and to notice if anything differs."""

from collections.abc import Iterable
from typing import Any

from conceptlens.core.files import dump_yaml
from conceptlens.data.dataset import SPLITS
from conceptlens.pages.markup import Html, count, h, join, table, table_row
from conceptlens.reports.material import SPOKEN, Material, value_of


def provenance(material: Material) -> Html:
    """Section 8."""
    info, card = material.info, material.card
    made = [
        ("Run", info.get("id")),
        ("Method", info.get("method")),
        ("Regularizer", info.get("regularizer")),
        ("Besides the concepts", info.get("bypass") or "nothing reaches the class"),
        ("Seed", info.get("seed")),
        ("Data", _with_hash(info.get("data"))),
        ("Concepts", _with_hash(info.get("concepts"))),
        ("Encoder at the start", _with_hash(info.get("encoder"))),
        ("Encoder as trained", _with_hash(card.get("encoder"))),
        ("Weights", card.get("weights_hash")),
        ("Image size", f"{card.get('image_size')} pixels, {card.get('fit')}"),
    ]
    # Where a run was written is not what made it; two runs of one recipe have one page.
    recipe = {key: value for key, value in material.recipe.items() if key != "out"}
    return join(
        [
            _pairs("The run and its hashes", made),
            _splits(material),
            _pairs("Environment", _environment(material)),
            h("details", h("summary", "The recipe, complete"), h("pre", dump_yaml(recipe), tabindex="0")),
        ]
    )


def _with_hash(value: Any) -> str:
    return f"{value.get('name')} ({value.get('hash')})" if isinstance(value, dict) else ""


def _pairs(caption: str, pairs: Iterable[tuple[str, Any]]) -> Html:
    rows = (h("tr", h("th", name, scope="row"), h("td", value, class_="word")) for name, value in pairs)
    return table(caption, ("What", "Value"), rows, class_="pairs")


def _splits(material: Material) -> Html:
    sides = material.splits["splits"]
    how = f"{material.splits.get('how')}, seed {material.splits.get('seed')}, hash {material.splits.get('hash')}"
    rows = [table_row(SPOKEN[side].capitalize(), count(len(sides[side]))) for side in SPLITS]
    warnings = material.splits.get("warnings") or []
    told = h("ul", (h("li", warning) for warning in warnings), class_="watch") if warnings else None
    return join([table(f"Images in each split ({how})", ("Split", "Images"), rows, class_="pairs"), told])


def _environment(material: Material) -> list[tuple[str, Any]]:
    found = material.environment
    packages = found.get("packages") or {}
    return [
        ("Python", found.get("python")),
        ("Packages", ", ".join(f"{name} {version}" for name, version in packages.items() if version)),
        ("System", value_of(found, "machine.system")),
        ("Processor", f"{value_of(found, 'machine.processor')}, {value_of(found, 'machine.cpus')} CPUs"),
        ("Device", f"{found.get('device')}; threads: {found.get('threads')}; processes: {found.get('processes')}"),
    ]
