"""rows.jsonl → tables.md, figures and verdicts.

python evidence/gig/gig_tables.py --rows OUT [--to FOLDER]
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sparsity_tables

from conceptlens.core.files import read_text, stored, write_bytes
from conceptlens.pages.webp import webp

MAKERS = ("clusters", "dictionary learning", "sparse autoencoder")
COLORS = {"clusters": "#0072b2", "dictionary learning": "#d55e00", "sparse autoencoder": "#009e73"}
Row = dict[str, Any]


def at_equal_sparsity(points: Sequence[Row], used: float) -> float | None:
    """Relative l2 at so many concepts a vector, between measured points; None outside of them."""
    line = sorted((max(point["used"], 1e-3), point["relative_l2"]) for point in points)
    xs, ys = np.log([x for x, _ in line]), [y for _, y in line]
    return float(np.interp(np.log(used), xs, ys)) if xs[0] <= np.log(used) <= xs[-1] else None


def table(head: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in body]) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def best(values: dict[str, float | None], *, least: bool) -> str | None:
    known = {name: value for name, value in values.items() if value is not None}
    return (min if least else max)(known, key=lambda name: known[name]) if len(known) > 1 else None


def marked(values: dict[str, float | None], *, least: bool) -> list[str]:
    first = best(values, least=least)
    return [f"**{number(value)}**" if name == first else number(value) for name, value in values.items()]


class Report:
    """Tables of one subject."""

    def __init__(self, name: str, rows: list[Row]) -> None:
        self.name, self.rows = name, rows
        self.parts: list[str] = []
        self.verdicts: dict[str, Any] = {}

    def of(self, section: str) -> list[Row]:
        return [row for row in self.rows if row["key"].split("/")[1] == section]

    def layers(self, rows: list[Row]) -> list[str]:
        return sorted(
            {row["layer"] for row in rows}, key=lambda name: [int(s) if s.isdigit() else s for s in _parts(name)]
        )

    def say(self, title: str, *texts: str) -> None:
        self.parts.append("\n".join([f"## {self.name}: {title}\n", *texts]))

    def accuracy(self) -> None:
        rows = self.of("accuracy")
        if rows:
            head = ["images", "number", "classes", "top 1", "top 5", "top 1 among these classes"]
            body = [
                [row["key"].split("/")[-1], row["images"], row["classes"], number(row["top1"]), number(row["top5"]),
                 number(row["top1_among_these_classes"])]
                for row in rows
            ]  # fmt: skip
            self.say("what the network knows", table(head, body))

    def reconstruction(self) -> None:
        rows = self.of("dictionaries")
        if not rows:
            return
        own, equal, wins = [], [], dict.fromkeys(MAKERS, 0)
        for layer in self.layers(rows):
            mine = {row["maker"]: row for row in rows if row["layer"] == layer}
            some = next(iter(mine.values()))
            cells = [layer, some["concepts"], some["samples"]]
            for maker in MAKERS:
                found = mine.get(maker)
                cells.append(
                    "–" if found is None else f"{found['own']['relative_l2']:.3f} / {found['own']['zero_share']:.4f}"
                )
            own.append(cells)
            if "clusters" not in mine:
                continue
            for used in (point["used"] for point in mine["clusters"]["lasso"][1:4]):
                values = {m: at_equal_sparsity(mine[m]["lasso"], used) if m in mine else None for m in MAKERS}
                equal.append([layer, f"{used:.1f}", *marked(values, least=True)])
            middle = mine["clusters"]["lasso"][2]["used"]
            values = {m: at_equal_sparsity(mine[m]["lasso"], middle) if m in mine else None for m in MAKERS}
            first = best(values, least=True)
            if first is not None and len([v for v in values.values() if v is not None]) == 3:
                wins[first] += 1
        self.verdicts["lowest error at equal sparsity, same lasso (layers)"] = wins
        self.say(
            "Table 1, relative l2 / share of zeros, each by its own means",
            table(["layer", "concepts", "samples", *MAKERS], own),
        )
        self.say(
            "relative l2 at equal sparsity, the same lasso on unit vectors (Figure: rel-l2 against l0)",
            table(["layer", "concepts a vector", *MAKERS], equal),
        )

    def curves(self) -> None:
        for coding in ("matched", "own"):
            rows = [row for row in self.of("curves") if row["coding"] == coding]
            if not rows:
                continue
            body, agree, wins = [], [], dict.fromkeys(MAKERS, 0)
            for layer in self.layers(rows):
                mine = {row["maker"]: row for row in rows if row["layer"] == layer}
                line: list[object] = [layer]
                values: dict[str, float | None] = {}
                for maker in MAKERS:
                    found = mine.get(maker)
                    if found is None:
                        line.append("–")
                        values[maker] = None
                        continue
                    p = {key: found["probability"][key]["area"] for key in ("deletion", "insertion")}
                    a = {key: found["accuracy"][key]["area"] for key in ("deletion", "insertion")}
                    values[maker] = p["insertion"] - p["deletion"]
                    line.append(
                        f"{p['deletion']:.3f} / {p['insertion']:.3f} ({a['deletion']:.2f} / {a['insertion']:.2f})"
                    )
                body.append([*line, *marked(values, least=False)])
                first = best(values, least=False)
                if first is not None and None not in values.values():
                    wins[first] += 1
                for maker in MAKERS:
                    if maker in mine:
                        g = mine[maker]["agreement"]
                        agree.append([layer, maker, number(g["same_class"], 2), *self._agreed(mine[maker])])
            words = "the same lasso at the clusters' sparsity" if coding == "matched" else "each by its own means"
            self.verdicts[f"largest insertion − deletion, {coding} (layers)"] = wins
            head = [
                "layer",
                *(f"{m}: deletion / insertion (accuracy)" for m in MAKERS),
                *(f"difference, {m}" for m in MAKERS),
            ]
            self.say(f"Table 2 and Figure 4, {words}; {rows[0]['images']} images", table(head, body))
            head = [
                "layer",
                "dictionary",
                "same class",
                "KL, nats",
                "relative l2",
                "zeros",
                "active concepts",
                "residual's share",
            ]
            self.say(f"agreement of reconstructions, {words}", table(head, agree))

    @staticmethod
    def _agreed(row: Row) -> list[str]:
        g = row["agreement"]
        closeness = [number(g["divergence"]), number(g["relative_l2"]), number(g["zero_share"], 4)]
        return [*closeness, number(row["active"], 0), number(row["residual_share"], 2)]

    def orders(self) -> None:
        for section, title in (("orders", "orders to the class"), ("between", "Figure 5, between layers")):
            rows = self.of(section)
            if not rows:
                continue
            names = [each["order"] for each in rows[0]["orders"]]
            body, wins = [], 0
            for row in rows:
                values: dict[str, float | None] = {e["order"]: e["over_random"] for e in row["orders"]}
                label = row["layer"] if row["to"] is None else f"{row['layer']} → {row['to']}"
                body.append([label, row["targets"], *marked(values, least=False)])
                wins += (values["gig"] or 0) > 0
            self.verdicts[f"{section}: GIG above random order"] = f"{wins} of {len(rows)}"
            self.verdicts[f"{section}: first"] = {
                n: sum(max(r["orders"], key=lambda e: e["over_random"])["order"] == n for r in rows) for n in names
            }
            self.say(
                f"{title}: area of insertion − deletion, less that of random order",
                table(["layer", "targets", *names], body),
            )

    def sizes(self) -> None:
        rows = self.of("sizes")
        body = []
        for row in rows:
            for size in row["sizes"]:
                body.append(
                    [row["layer"], f"{size['concepts'] / row['channels']:g} C", size["concepts"],
                     *(f"{p['relative_l2']:.3f} / {p['zero_share']:.4f}" for p in size["points"])]
                )  # fmt: skip
        if rows:
            falls = [
                all(
                    a["points"][0]["relative_l2"] > b["points"][0]["relative_l2"]
                    for a, b in zip(r["sizes"], r["sizes"][1:], strict=False)
                )
                for r in rows
            ]
            self.verdicts["error falls with every doubling of concepts (layers)"] = f"{sum(falls)} of {len(falls)}"
            self.say(
                "Table 3, relative l2 / share of zeros at two penalties",
                table(["layer", "size", "concepts", "λ = 0.1", "λ = 0.05"], body),
            )

    def sheets(self, to: Path) -> None:
        rows = self.of("sheets")
        if rows:
            head = [
                "layer",
                "dictionary",
                "concepts",
                "of one class among the ten nearest",
                "largest class",
                "mean cosine",
                "sheet",
            ]
            body = [
                [r["layer"], r["maker"], r["concepts"],
                 *(number(r[key], 2) for key in ("class_purity", "largest_class", "mean_cosine")),
                 "[{0}]({0})".format(r["file"]) if (to / r["file"]).exists() else "not kept"]
                for r in rows
            ]  # fmt: skip
            self.say("concept sheets", table(head, body))


def _parts(name: str) -> list[str]:
    import re

    return [part for part in re.split(r"(\d+)", name) if part]


def figures(name: str, rows: list[Row], to: Path) -> list[str]:
    """Figure 4 (curves of three layers, differences over all), trade-offs, Figure 5."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    report = Report(name, rows)
    made = []

    def keep(figure: Any, file: str, top: float = 1.0) -> None:
        figure.tight_layout(rect=(0, 0, 1, top))
        write_bytes(to / file, webp(figure))
        plt.close(figure)
        made.append(file)

    found = report.of("dictionaries")
    if found:
        layers = report.layers(found)
        figure, axes = plt.subplots(
            -(-len(layers) // 4), min(4, len(layers)), figsize=(10, 2.2 * -(-len(layers) // 4)), squeeze=False
        )
        for axis, layer in zip(axes.flat, layers, strict=False):
            for row in (r for r in found if r["layer"] == layer):
                color = COLORS[row["maker"]]
                axis.plot(
                    [p["used"] for p in row["lasso"]],
                    [p["relative_l2"] for p in row["lasso"]],
                    "o-",
                    ms=3,
                    color=color,
                    label=row["maker"],
                )
                axis.plot(row["own"]["used"], row["own"]["relative_l2"], "x", color=color)
            axis.set(title=layer, xscale="log", ylim=(0, 1.2))
            low, high = axis.get_xlim()
            axis.set_xticks([tick for tick in (5, 10, 20, 50, 100, 200) if low <= tick <= high])
            axis.xaxis.set_major_formatter("{x:.0f}")
            axis.xaxis.set_minor_formatter(NullFormatter())
        for axis in list(axes.flat)[len(layers) :]:
            axis.axis("off")
        axes[0, 0].legend(fontsize=6)
        figure.supxlabel("concepts a vector (× : by its own means)")
        figure.supylabel("relative l2")
        keep(figure, f"trade-off-{name}.webp")
    found = [row for row in report.of("curves") if row["coding"] == "matched"]
    if found:
        layers = report.layers(found)
        shown = [layers[0], layers[len(layers) // 2], layers[-1]]  # the paper shows the first
        figure, (*panels, right) = plt.subplots(1, 4, figsize=(12, 3.2), width_ratios=(1, 1, 1, 1.6))
        for maker in MAKERS:
            mine = {r["layer"]: r for r in found if r["maker"] == maker}
            if not mine:
                continue
            places = [i for i, layer in enumerate(layers) if layer in mine]
            values = [
                mine[layers[i]]["probability"]["insertion"]["area"] - mine[layers[i]]["probability"]["deletion"]["area"]
                for i in places
            ]
            right.plot(places, values, "o-", color=COLORS[maker], label=maker)
            for layer, panel in zip(shown, panels, strict=True):
                for kind, dash in (("insertion", "-"), ("deletion", "--")) if layer in mine else ():
                    curve = mine[layer]["probability"][kind]["curve"]
                    panel.plot(np.linspace(0, 1, len(curve)), curve, dash, color=COLORS[maker])
        for layer, panel in zip(shown, panels, strict=True):
            panel.set(title=layer, ylim=(-0.02, 1.02))
        panels[0].set(ylabel="probability (deletion dashed)")
        panels[1].set(xlabel="share of active concepts inserted or deleted")
        right.set(title="insertion − deletion", xticks=range(len(layers)))
        right.set_xticklabels(layers, rotation=60, fontsize=7)
        right.legend(fontsize=7)
        keep(figure, f"figure4-{name}.webp")
    found = report.of("between")
    if found:
        figure, axes = plt.subplots(1, len(found) + 1, figsize=(2.2 * (len(found) + 1), 3.2), squeeze=False)
        for axis, row in zip(axes[0], found, strict=False):
            for each, color in zip(
                row["orders"], ("#0072b2", "#009e73", "#d55e00", "#cc79a7", "#777777"), strict=False
            ):
                xs = np.linspace(0, 1, len(each["insertion"]))
                axis.plot(xs, each["insertion"], color=color, label=each["order"], lw=1.2)
                axis.plot(xs, each["deletion"], "--", color=color, lw=1.2)
            axis.set_title(f"{row['layer']} →\n{row['to']}", fontsize=8)
        axes[0, 0].set_ylabel("projection (deletion dashed)")
        axes[0, len(found) // 2].set_xlabel("share of concepts inserted or deleted")
        lines, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, names, loc="upper left", ncols=len(names), fontsize=7, frameon=False)
        last = axes[0, -1]
        for place, order in enumerate(("gig", "random")):
            values = [next(e for e in row["orders"] if e["order"] == order)["difference"] for row in found]
            last.plot(range(len(values)), values, "o-", color=("#0072b2", "#009e73")[place], label=order)
        last.set_title("insertion −\ndeletion", fontsize=8)
        last.set_xticks(
            range(len(found)), [row["to"].removeprefix("encoder.") for row in found], rotation=60, fontsize=7
        )
        last.legend(fontsize=6)
        keep(figure, f"figure5-{name}.webp", top=0.93)
    return made


PAPER_ZEROS = {  # share of zero coefficients of the clusters in the paper's Table 1
    "layer1.1": 0.9947,
    "layer2.0": 0.9964,
    "layer2.2": 0.9961,
    "layer3.0": 0.9971,
    "layer3.2": 0.9967,
    "layer3.4": 0.9962,
    "layer4.0": 0.9968,
    "layer4.2": 0.9936,
}


def at_paper_sparsity(rows: list[Row]) -> str:
    """Relative l2 where a vector has as many concepts as in the paper; its median share where it names none."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["key"].startswith("resnet50/dictionaries/"):
            found.setdefault(row["layer"], {})[row["maker"]] = row
    usual, lines = float(np.median(list(PAPER_ZEROS.values()))), []
    for layer, makers in sorted(found.items()):
        zeros = PAPER_ZEROS.get(layer, usual)
        used = (1 - zeros) * 8 * makers["clusters"]["channels"]  # the paper has 8 C concepts
        errors = {name: at_equal_sparsity(makers[name]["lasso"], used) for name in MAKERS}
        paper = f"{zeros:.4f}" if layer in PAPER_ZEROS else "–"
        lines.append([layer, paper, number(used, 1), *marked(errors, least=True)])
    return table(["layer", "zeros in the paper", "concepts a vector", *MAKERS], lines)


def by_sparsity(rows: list[Row]) -> str:
    """In how many layers each dictionary has the least error, along the whole curve."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["key"].startswith("resnet50/dictionaries/"):
            found.setdefault(row["layer"], {})[row["maker"]] = row
    usual, lines = float(np.median(list(PAPER_ZEROS.values()))), []
    for times in (0.5, 0.75, 1, 1.5, 2, 3, 4, 6):
        line: list[object] = [f"{times:g}"]
        for layers in (tuple(PAPER_ZEROS), tuple(found)):
            wins = dict.fromkeys(MAKERS, 0)
            known = 0
            for layer in layers:
                makers = found[layer]
                used = times * (1 - PAPER_ZEROS.get(layer, usual)) * 8 * makers["clusters"]["channels"]
                errors = {name: at_equal_sparsity(makers[name]["lasso"], used) for name in MAKERS}
                if None in errors.values():
                    continue
                known += 1
                wins[best(errors, least=True) or ""] += 1
            line += [*wins.values(), f"{known} of {len(layers)}"]
        lines.append(line)
    short = ("clusters", "dictionary learning", "autoencoder", "layers measured")
    head = ["times the paper's concepts a vector", *(f"{name}, the paper's layers" for name in short)]
    return table([*head, *(f"{name}, all" for name in short)], lines)


def fill(page: str, name: str, made: str) -> str:
    """The page with a marked table replaced."""
    before, start, after = page.partition(f"<!-- table {name} -->")
    return f"{before}{start}\n{made}<!-- end -->{after.partition('<!-- end -->')[2]}" if start else page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help="the folder with rows.jsonl")
    parser.add_argument("--to", type=Path, help="the same folder if not given")
    given = parser.parse_args()
    to = given.to or given.rows
    to.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in read_text(stored(given.rows / "rows.jsonl")).splitlines() if line]
    parts, verdicts = ["# GIG: tables\n\nMade by tables.py from rows.jsonl. Bold: best of its row.\n"], {}
    for name in dict.fromkeys(row["key"].split("/")[0] for row in rows):
        report = Report(name, [row for row in rows if row["key"].startswith(f"{name}/")])
        for part in (report.accuracy, report.reconstruction, report.curves, report.orders, report.sizes):
            part()
        report.sheets(to)
        made = figures(name, report.rows, to)
        parts += [*report.parts, "".join(f"![{file}]({file})\n" for file in made)]
        verdicts[name] = report.verdicts
    again = sparsity_tables.read(given.rows)
    if again:
        parts.append(
            f"## resnet50: error against sparsity with intervals (sparsity.py)\n\n{sparsity_tables.errors(again)}"
        )
    parts.append("## Verdicts\n\n```json\n" + json.dumps(verdicts, indent=1) + "\n```\n")
    (to / "tables.md").write_text("\n".join(parts), "utf-8")
    page = to / "README.md"
    if page.exists():
        text = fill(page.read_text("utf-8"), "paper-sparsity", at_paper_sparsity(rows))
        text = fill(text, "by-sparsity", by_sparsity(rows))
        for name in ("at_paper", "by_multiple", "curves", "orders", "between", "disturbed"):
            text = fill(text, f"again-{name}", getattr(sparsity_tables, name)(again)) if again else text
        page.write_text(text, "utf-8")
    print(json.dumps(verdicts, indent=1))


if __name__ == "__main__":
    main()
