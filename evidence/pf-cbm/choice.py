"""What the paper leaves open, chosen on validation images: one change at a time, then the winners together.

Rows with Gaussians and rows with points of every image are chosen for apart, and so are whole and cut images. Trials
are short (`choice.epochs` of the schedule); `choice-full` trains the same ones whole, if there is time, to see whether
the short ones rank alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, Any]
FAMILIES = {"prior": "no_bbox_spatial_prior", "points": "no_bbox_pca"}  # and the row that stands for it


@dataclass(frozen=True)
class Task:
    """One training, or something else for a worker to do with a bank."""

    section: str
    condition: str
    bank: str
    options: Tree = field(default_factory=dict)
    seed: int = 0
    groups: list[str] | None = None
    epochs: float = 1.0  # share of the schedule

    @property
    def key(self) -> str:
        return f"{self.section}|{self.condition}|{self.bank}|{self.seed}"


def family_of(options: Tree) -> str:
    """By what a row's settings are chosen; one with neither Gaussians nor points goes with the Gaussians."""
    return "points" if options.get("keypoints", "none") != "none" else "prior"


def place_of(bank: str) -> str:
    return "cub-box" if "box" in bank else "cub-full"


def trials(plan: Tree, section: str = "choice") -> Iterator[Task]:
    """The default and every change of each family on each bank."""
    choice = plan["choice"]
    share = choice["epochs"] if section == "choice" else 1.0
    for bank in choice["banks"]:
        for family, changes in choice["families"].items():
            options = plan["rows"][FAMILIES[family]]
            yield Task(section, f"{family}: default", bank, options, epochs=share)
            for name, values in changes.items():
                for value in values:
                    yield Task(section, f"{family}: {name} {value:g}", bank, {**options, name: value}, epochs=share)


def worth(row: Tree) -> float:
    """By what settings are chosen: the mean of accuracy and pointing on validation images."""
    return 0.5 * (float(row["val"]["top1"]) + float(row["val"]["places"]["pairs"]["pointing_patch"]))


def winners(plan: Tree, rows: dict[str, Tree], margin: float) -> dict[tuple[str, str], Tree]:
    """For each bank and family the best value of every setting that beats the default by the margin."""
    found: dict[tuple[str, str], Tree] = {}
    for bank in plan["choice"]["banks"]:
        for family, changes in plan["choice"]["families"].items():
            default = rows.get(f"choice|{family}: default|{bank}|0")
            if default is None:
                continue
            best = found.setdefault((bank, family), {})
            for name, values in changes.items():
                keys = {value: f"choice|{family}: {name} {value:g}|{bank}|0" for value in values}
                scored = [(worth(rows[key]), value) for value, key in keys.items() if key in rows]
                top = max(scored, default=(0.0, None))
                if top[0] > worth(default) + margin:
                    best[name] = top[1]
    return found


def together(plan: Tree, found: dict[tuple[str, str], Tree]) -> list[Task]:
    """The winners of a bank and family at once; where there is only one, it was tried already."""
    share = plan["choice"]["epochs"]
    return [
        Task("choice", f"{family}: together", bank, plan["rows"][FAMILIES[family]] | best, epochs=share)
        for (bank, family), best in found.items()
        if len(best) > 1
    ]


def settle(plan: Tree, rows: dict[str, Tree], margin: float) -> Tree:
    """Bank → family → settings: the winners together if that beats each alone, else the best one alone."""
    chosen: Tree = {}
    for (bank, family), best in winners(plan, rows, margin).items():
        alone = {name: worth(rows[f"choice|{family}: {name} {value:g}|{bank}|0"]) for name, value in best.items()}
        picked = best
        if len(best) > 1:
            top = max(alone, key=lambda name: alone[name])
            row = rows.get(f"choice|{family}: together|{bank}|0")
            picked = best if row is not None and worth(row) >= alone[top] else {top: best[top]}
        chosen.setdefault(bank, {})[family] = picked
    return chosen
