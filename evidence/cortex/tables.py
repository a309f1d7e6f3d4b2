"""What `run.py`, `mixtures.py` and `bridge.py` found, as tables and figures for this folder.

    python evidence/cortex/tables.py work/cortex [--out evidence/cortex]

Writes `results.json.gz` (all rows: those of the folder, and those that it held before), `tables.md`, and pictures.
Tables of what is not there yet are left out.
"""

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import seeds_tables

from conceptlens.core.files import read_json, write_bytes, write_json, write_text
from conceptlens.pages.webp import webp
from conceptlens.stats.paired_permutation import holm
from pretraining.command import command

sys.path.insert(0, str(Path(__file__).parents[1]))

import raw_rows  # a neighbor

Rows = dict[str, dict[str, Any]]
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
NETWORKS = ("CE", "RE", "TE")


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def generator(rows: Rows) -> str:
    row = rows["generator"]
    made, loss = row["reconstruction"], row["token_loss"]
    text = (
        f"Codebook use {percent(made['codebook']['use'])} % of {made['codebook']['codes']} codes (perplexity "
        f"{made['codebook']['perplexity']:.0f}) over {made['images']} test images; mean absolute error of pixels "
        f"{made['mean_absolute']:.4f}, PSNR {made['psnr']:.1f} dB. Cross-entropy of hidden tokens: "
        f"{loss['training images']:.2f} for training images, {loss['test images']:.2f} for test images."
    )
    table = markdown(
        ("judge", "its accuracy on real test images, %", "samples seen as asked, %"),
        [
            (name, percent(rows[f"judge-{name}"]["accuracy"]["class"]), percent(found["accuracy"]))
            for name, found in row["classes"].items()
        ],
    )
    return f"{text}\n\n{table}"


def extractors(rows: Rows) -> str:
    lines = []
    for kind in ("classes", "fine"):
        for network in NETWORKS:
            row = rows.get(f"extractor-{kind}-{network}")
            if row:
                concepts = row["concepts"] if isinstance(row["concepts"], int) else len(row["concepts"])
                found = [percent(row["accuracy"].get(f"top-{k}")) for k in (1, 3, 5, 10)]
                lines.append((f"{concepts} {'classes' if kind == 'classes' else 'finer concepts'}", network, *found))
    return markdown(("concepts", "extractor", "top-1", "top-3", "top-5", "top-10"), lines)


def concept_sets(rows: Rows) -> str:
    lines = []
    for network in NETWORKS:
        for fill in ("black", "blur"):
            for each in rows.get(f"masking-{network}", {}).get(fill, {}).get("sets", ()):
                lines.append(
                    (
                        network,
                        fill,
                        each["judge"],
                        each["tokens"],
                        f"{each['hidden']:.1f}",
                        percent(each["accuracy"]),
                        f"{100 * each['accuracy_change']:+.1f}",
                        f"{each['probability']:.3f}",
                        f"{each['probability_change']:+.3f}",
                    )
                )
    return markdown(("extractor", "fill", "judge", "tokens hidden", "n", "Acc, %", "ΔA", "P", "ΔP"), lines)


def bias_accuracy(rows: Rows) -> str:
    lines = [(name[5:], percent(row["accuracy"]["top-1"])) for name, row in rows.items() if name.startswith("bias-")]
    return markdown(("attribute", "accuracy, %"), lines)


def bias(rows: Rows) -> str:
    lines = []
    for name, row in rows.items():
        if not name.startswith("bias-"):
            continue
        for table in row["tables"]:
            for pair in table["pairs"]:
                share = " / ".join(f"{100 * next(iter(each['shares'].values())):.0f}" for each in row.get("judged", ()))
                delta, null = pair["delta"], pair["null"]
                lines.append(
                    (
                        f"{pair['first']} / {pair['second'].split('=')[-1]}",
                        table["n"],
                        f"{pair['mean_first']:.2f} / {pair['mean_second']:.2f}",
                        f"{delta['value']:+.3f} [{delta['low']:+.3f}, {delta['high']:+.3f}]",
                        f"{delta['paper']:+.3f}",
                        f"{null['value']:+.3f}",
                        f"{pair['excess']:+.3f}",
                        "yes" if pair["found"] else "no",
                        share,
                        f"{100 * row['training_share'][0]:.0f}",
                    )
                )
    head = ("values", "top", "tokens an image", "δ", "Eq. 15", "δ, asked for equally", "excess", "bias found")
    return markdown((*head, "share of the first by judges, %", "in training, %"), lines)


def pairs(rows: Rows) -> str:
    lines = []
    for side in (4, 8):
        for network in NETWORKS[:2]:
            for each in rows.get(f"pairs-{network}-{side}", {}).get("rows", ()):
                lines.append(
                    (
                        f"{side} × {side}",
                        network,
                        each["judge"],
                        {"tokens": "token selection", "embeddings": "embedding optimization"}[each["method"]],
                        percent(each["accuracy"]),
                        f"{each['original']:.3f}",
                        f"{each['target']:.3f}",
                        f"{each['original_change']:+.3f}",
                        f"{each['target_change']:+.3f}",
                    )
                )
    return markdown(("region", "extractor", "judge", "way", "Acc, %", "P orig", "P targ", "ΔP orig", "ΔP targ"), lines)


def sets_of(table: dict[str, Any]) -> tuple[str, int]:
    """How a table's token sets were chosen, and the top n; by frequency where nothing is said."""
    return table.get("sets", "frequency"), table["n"]


def corrected(row: dict[str, Any]) -> dict[tuple[str, int], float]:
    """p-values of a copy's tables, corrected for the several n of one way to choose sets."""
    found: dict[tuple[str, int], float] = {}
    for way in dict.fromkeys(sets_of(table)[0] for table in row["tables"]):
        told = [table for table in row["tables"] if sets_of(table)[0] == way]
        found |= dict(zip(map(sets_of, told), holm([table["p_balanced"] for table in told]), strict=True))
    return found


def skew(rows: Rows) -> str:
    lines = []
    balanced: dict[tuple[str, int], float] = {}
    twins = sorted((row for name, row in rows.items() if name.startswith("skew-")), key=lambda row: row["ratio"])
    for row in twins:
        for table in row["tables"]:
            if row["ratio"] == 1:
                balanced[sets_of(table)] = max(balanced.get(sets_of(table), 0.0), abs(table["excess"]))
    for row in twins:
        shares = [each[row["concepts"][0]] for each in row["shares"].values()]
        for table in row["tables"]:
            beyond = row["ratio"] != 1 and abs(table["excess"]) > balanced[sets_of(table)]
            p = corrected(row)[sets_of(table)]
            lines.append(
                (
                    row["twin"],
                    percent(row["ratio"] / (1 + row["ratio"])),
                    " / ".join(percent(share) for share in shares),
                    "{1}, by {0}".format(*sets_of(table)),
                    f"{table['delta']['value']:+.3f}",
                    f"{table['null']['value']:+.3f}" if table["null"] else "–",
                    f"{table['excess']:+.3f}",
                    f"{p:.2g}",
                    "–" if row["ratio"] == 1 else "yes" if beyond else "no",
                )
            )
    head = (
        "copy",
        "share drawn, %",
        "share by judges, %",
        "top",
        "δ",
        "δ of balanced copies",
        "excess",
        "p, Holm over top",
    )
    return markdown((*head, "beyond every balanced copy"), lines)


def mixtures(found: dict[str, Any]) -> str:
    """Of each attribute and way to choose sets: mean excess over the three n, and how often a bias was found."""
    lines = []
    for row in found["rows"]:
        for way in ("frequency", "lift"):
            by_ratio: dict[float, list[dict[str, Any]]] = {}
            for table in row["tables"]:
                if table["sets"] == way:
                    by_ratio.setdefault(table["ratio"], []).append(table)
            told = [
                f"{sum(each['excess'] for each in some) / len(some):+.3f} "
                f"({100 * sum(each['found'] for each in some) / len(some):.0f})"
                for some in by_ratio.values()
            ]
            name = f"{row['attribute']}: {' / '.join(row['values'])}"
            lines.append((name, percent(row["accuracy"]["top-1"]), way, *told))
    ratios = [f"{ratio:g} : 1" for ratio in by_ratio]
    return markdown(("values", "extractor, %", "sets by", *ratios), lines)


def bridge(found: dict[str, Any]) -> str:
    lines, hidden = [], []
    for group in found["groups"]:
        if "left_out" in group:
            continue
        right = f"{percent(group['accuracy']['top-1'])} ({percent(group['most_frequent_value'])})"
        for each in group["values"]:
            match = each["audit_match"]
            rank = each["rank_correlation"]
            lines.append(
                (
                    group["group"],
                    each["value"],
                    right,
                    ", ".join(str(code["code"]) for code in each["cortex"]),
                    f"{each['audit']['code']} ({each['audit']['correlation']:+.2f})",
                    "–" if match is None else f"{match['code']}{'' if match['sure'] else ', not sure'}",
                    each["rank_of_audits_code"],
                    "–" if rank is None else f"{rank:+.2f}",
                )
            )
        told = group["hidden"]
        ways = [value for value in told.values() if isinstance(value, dict)]
        hidden.append(
            (
                group["group"],
                f"{told['probability']:.3f}",
                *(f"{way['change']:+.3f} ± {way['error']:.3f}" for way in ways),
            )
        )
    ways_head = [name for name, value in found["groups"][0]["hidden"].items() if isinstance(value, dict)]
    head = ("group", "value", "extractor, % (commonest value)", "CORTEX's first three codes", "audit's code (r)")
    first = markdown((*head, "its one-to-one match", "rank of the audit's code by CORTEX", "rank correlation"), lines)
    return first + "\n\n" + markdown(("group", "P of the true value", *ways_head), hidden)


def curves(rows: Rows) -> bytes:
    """Figure 4: every judge's mean probability as tokens are hidden, importance of each extractor against random."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    told = {network: rows[f"masking-{network}"] for network in NETWORKS if f"masking-{network}" in rows}
    fills = [fill for fill in ("black", "blur") if any(fill in row for row in told.values())]
    every = [curve for row in told.values() for fill in fills if fill in row for curve in row[fill]["curves"]]
    judges = list(dict.fromkeys(curve["judge"] for curve in every))
    figure = Figure(figsize=(3.0 * len(judges), 2.6 * len(fills)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(fills), len(judges), squeeze=False, sharex=True, sharey=True)
    for line, fill in zip(grid, fills, strict=True):
        line[0].set_ylabel(f"probability, {fill}")
        for axes, judge in zip(line, judges, strict=True):
            for network, row in told.items():
                for curve in row.get(fill, {}).get("curves", ()):
                    if curve["judge"] == judge and (curve["order"] != "random" or network == next(iter(told))):
                        random = curve["order"] == "random"
                        name, color = ("random", "gray") if random else (network, COLORS[NETWORKS.index(network)])
                        axes.plot(curve["counts"], curve["deletion"], "--" if random else "-", color=color, label=name)
            axes.set_title(judge, fontsize=9)
            axes.legend(fontsize=7)
    for axes in grid[-1]:
        axes.set_xlabel("tokens hidden")
    return webp(figure)


def skew_figure(rows: Rows) -> bytes:
    """What was drawn in training against what judges see in neutral samples, and against δ less its null."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    twins = sorted((row for name, row in rows.items() if name.startswith("skew-")), key=lambda row: row["ratio"])
    drawn_share = [row["ratio"] / (1 + row["ratio"]) for row in twins]
    figure = Figure(figsize=(9.0, 3.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for judge, color in zip(twins[0]["shares"], COLORS, strict=False):
        seen = [row["shares"][judge][row["concepts"][0]] for row in twins]
        left.plot(drawn_share, seen, "o", color=color, label=judge, markersize=4)
    left.set_ylabel("share in neutral samples, by judges")
    for way, marker in (("frequency", "o"), ("lift", "^")):
        for n, color in zip((5, 10, 20), COLORS, strict=False):
            seen = [
                (share, table["excess"])
                for share, row in zip(drawn_share, twins, strict=True)
                for table in row["tables"]
                if sets_of(table) == (way, n)
            ]
            if seen:
                right.plot(*zip(*seen, strict=True), marker, color=color, label=f"top {n}, by {way}", markersize=4)
    right.axhline(0, color="gray", linewidth=0.8)
    right.set_ylabel("δ less that of balanced copies")
    for axes in (left, right):
        axes.set_xlabel(f"share of {twins[0]['concepts'][0]!r} in training")
        axes.legend(fontsize=7)
    return webp(figure)


def unfinished(work: Path) -> Rows:
    """Maskings of which one fill is there and the other is not yet, so that there is no row of theirs."""
    found: Rows = {}
    for network in NETWORKS:
        parts = {fill: work / "results" / f"masking-{network}" / fill / "masking.json" for fill in ("black", "blur")}
        there = {fill: read_json(path) for fill, path in parts.items() if path.exists()}
        if there and not (work / "rows" / f"masking-{network}.json").exists():
            found[f"masking-{network}"] = there
    return found


def smaller(source: Path, to: Path) -> None:
    """A sheet of photographs as WebP: a tenth of the bytes, and the eye sees hardly a difference."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.open(source).convert("RGB").save(buffer, "WEBP", quality=70, method=6)
    write_bytes(to, buffer.getvalue())


TABLES: tuple[tuple[str, str, Callable[[Rows], str]], ...] = (
    ("The generator", "generator", generator),
    ("Table 1: accuracy of extractors", "extractor-", extractors),
    ("Table 2: a concept's tokens hidden", "masking-", concept_sets),
    ("Table 3: accuracy of attribute extractors", "bias-", bias_accuracy),
    ("Table 4: whose tokens are in neutral samples", "bias-", bias),
    ("Table 5: images edited towards a partner", "pairs-", pairs),
    ("Biases of known size", "skew-", skew),
)


PICTURES = {
    "pictures/generator.png": "generator.webp",
    "results/masking-CE/tokens.png": "tokens.webp",
    "results/search/search.png": "search.webp",
    **{f"results/edit-{place}/edit.png": f"edit-{place}.webp" for place in range(5)},
    **{
        f"results/bias-{name}/bias.png": f"bias-{name}.webp"
        for name in ("cell-size", "cytoplasm-texture", "granularity")
    },
}


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="the folder of run.py")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args(arguments)
    before = options.out / "results.json.gz"
    found: Rows = read_json(before)["rows"] if before.exists() else {}
    made = {path.stem: read_json(path) for path in sorted((options.work / "rows").glob("*.json"))}
    found = dict(sorted((found | unfinished(options.work) | made).items()))
    parts = []
    if found:
        write_json(options.out / "results.json.gz", {"rows": found})
    for title, prefix, table in TABLES:
        if any(name.startswith(prefix) for name in found):
            parts.append(f"## {title}\n\n{table(found)}")
    if any(name.startswith("masking-") for name in found):
        write_bytes(options.out / "figure-4.webp", curves(found))
        parts.append("## Figure 4\n\n![probability against hidden tokens](figure-4.webp)")
    if any(name.startswith("skew-") for name in found):
        write_bytes(options.out / "skew.webp", skew_figure(found))
        parts.append("## Biases of known size, drawn\n\n![shares and δ against the skew](skew.webp)")
    mixed = options.out / "mixtures.json.gz"
    if mixed.exists():
        parts.append(f"## Mixtures of known shares\n\n{mixtures(read_json(mixed))}")
    told = options.out / "bridge.json.gz"
    if told.exists():
        parts.append(f"## Prototypes of an IVQ-CBM, explained twice\n\n{bridge(read_json(told))}")
    again = seeds_tables.parts()
    parts += [f"## {title}\n\n{made}" for title, made in again.values()]
    page = options.out / "README.md"
    if page.exists() and again:
        text = page.read_text("utf-8")
        raw_rows.fill(page, {name: made for name, (_, made) in again.items() if f"<!-- table {name} -->" in text})
    for source, name in PICTURES.items():
        if (options.work / source).exists():
            smaller(options.work / source, options.out / name)
    write_text(options.out / "tables.md", "\n\n".join(["# CORTEX: all tables", *parts]) + "\n")
    print(f"{len(parts)} parts written to {options.out / 'tables.md'}")


if __name__ == "__main__":
    sys.exit(main())
