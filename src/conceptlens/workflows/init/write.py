"""The three files that `init` writes: the table, the concept file and the recipe."""

import os
from collections.abc import Mapping
from pathlib import Path

from conceptlens.core.files import dump_yaml, write_text
from conceptlens.core.spreadsheet import csv_text
from conceptlens.recipes.parse import DEFAULT_METHOD
from conceptlens.workflows.init.proposal import SMALL, Proposal

TABLE, CONCEPTS, RECIPE = "images.csv", "concepts.yaml", "recipe.yaml"
FINDINGS = "findings"
WITHOUT_CONCEPTS = "black-box"
LINEAR_RATE = 1e-3  # of a black box on a frozen encoder (evidence/own-data)


def write_setup(proposal: Proposal, out: Path) -> None:
    """Write the files; the recipe comes last."""
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / TABLE, table_text(proposal))
    if proposal.has_concepts:
        write_text(out / CONCEPTS, concepts_text(proposal))
    write_text(out / RECIPE, recipe_text(proposal, out))


def table_text(proposal: Proposal) -> str:
    """One row an image: its path, then every column that says something."""
    columns = {name: cells for name, cells in proposal.columns.items() if proposal.roles[name].role != "empty"}
    return csv_text([["image", *columns], *zip(proposal.images, *columns.values(), strict=True)])


def concepts_text(proposal: Proposal) -> str:
    """A group for each column with values, one group for all yes/no columns."""
    groups: dict[str, object] = {}
    for name in proposal.named("concept"):
        spoken = _spoken(name)
        values = {value: _spoken(value) for value in proposal.roles[name].values}
        under = {"under": {FINDINGS: _spoken(proposal.described)}} if proposal.described else {}
        groups[spoken] = {
            "kind": "exclusive",
            "column": name,
            **under,
            "prompt": f"{spoken}: {{value}}",
            "values": values,
        }
    if findings := proposal.named("finding"):
        values = {_spoken(name): _spoken(name) for name in findings}
        columns = {_spoken(name): name for name in findings}
        groups[FINDINGS] = {"kind": "independent", "values": values, "columns": columns}
    class_column = proposal.column("class")
    assert class_column is not None
    head = (
        "# What a model may say about an image, made by `conceptlens init` from the columns of images.csv.\n"
        "# A value's text, behind the colon, is what a text encoder reads: say it as a colleague would.\n"
        "# Remove what cannot be seen in an image.\n"
    )
    return head + dump_yaml({"classes": list(proposal.roles[class_column].values), "groups": groups})


def recipe_text(proposal: Proposal, out: Path) -> str:
    """The recipe, with everything that was assumed above it."""
    root = os.path.relpath(proposal.contents.root.resolve(), out.resolve())
    data: dict[str, object] = {"source": TABLE, "images": root, "class_column": proposal.column("class")}
    for role in ("group", "split", "certainty"):
        if name := proposal.column(role):
            data[f"{role}_column"] = name
    if proposal.folds:
        data["folds"] = proposal.folds
    if proposal.mask_columns:
        regions: dict[str, object] = {"masks": root, "mask_columns": proposal.mask_columns}
        if proposal.finding_parts:
            regions["concepts"] = {f"{FINDINGS}: {_spoken(c)}": part for c, part in proposal.finding_parts.items()}
        data["regions"] = regions
    method = DEFAULT_METHOD if proposal.has_concepts else WITHOUT_CONCEPTS
    about = f"Made by `conceptlens init {proposal.contents.root.name}`. Every line may be changed;"
    lines = [_comment(f"{about} `conceptlens data check` of this file says what follows."), "#"]
    lines += ["# What was assumed:", *(_comment(f"- {line}") for line in proposal.assumed), ""]
    lines += _section({"data": data}, "where images and labels are; paths start from this file")
    if proposal.has_concepts:
        lines += _section({"concepts": CONCEPTS}, "what the model may say about an image")
        lines += _section({"method": method}, "`conceptlens list` names the others")
    else:
        why = "without concepts: `conceptlens concepts draft` proposes some, `conceptlens label` labels images"
        lines += _section({"method": method}, why)
    encoder: dict[str, object] = {"name": "auto", "train": "none", "store": "run"}
    why = "the best encoder at hand, chosen by a linear probe; kept as it is, since the images are few"
    if len(proposal.images) > SMALL and proposal.has_concepts:
        encoder, why = {"name": "auto", "train": "none"}, "the best encoder at hand; maps are best if it stays as it is"
    elif len(proposal.images) > SMALL:
        encoder, why = {"name": "auto", "train": 1}, "the best encoder at hand; its last block learns"
    lines += _section({"encoder": encoder}, why)
    training: dict[str, object] = {}
    reasons = []
    if encoder["train"] == "none" and not proposal.has_concepts:
        training["learning_rate"] = LINEAR_RATE
        reasons.append("only a linear classifier learns: at a higher rate than a whole network")
    if proposal.balanced:
        training["loss"] = {"class_balance": "balanced"}
        reasons.append("classes differ in size; each counts the same")
    if training:
        lines += _section({"training": training}, "; ".join(reasons))
    lines += _section({"seed": 0}, "another number shows how much is chance")
    lines += _section({"out": f"runs/{proposal.contents.root.resolve().name}"}, "where the run is written")
    return "\n".join(lines) + "\n"


def _comment(words: str) -> str:
    """One line: names in the data may hold line breaks, and what stood behind one would be a key of the recipe."""
    return "# " + " ".join("".join(c if c.isprintable() else " " for c in words).split())


def _section(tree: Mapping[str, object], comment: str) -> list[str]:
    return [f"# {comment}", *dump_yaml(dict(tree)).rstrip().splitlines(), ""]


def _spoken(name: str) -> str:
    return " ".join(name.replace("_", " ").split())
