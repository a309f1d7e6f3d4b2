"""What `run.py` and `bridge.py` found, as tables and figures for this folder.

    python evidence/cortex/tables.py work/cortex [--out evidence/cortex]

Writes `results.json` (all rows), `tables.md`, and pictures. Tables of what is not there yet are left out.
"""

import argparse
import io
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conceptlens.files import read_json, write_bytes, write_json, write_text
from pretraining.command import command

Rows = dict[str, dict[str, Any]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
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
                        {"tokens": "token selection", "embeddings": "embedding optimisation"}[each["method"]],
                        percent(each["accuracy"]),
                        f"{each['original']:.3f}",
                        f"{each['target']:.3f}",
                        f"{each['original_change']:+.3f}",
                        f"{each['target_change']:+.3f}",
                    )
                )
    return markdown(("region", "extractor", "judge", "way", "Acc, %", "P orig", "P targ", "ΔP orig", "ΔP targ"), lines)


def skew(rows: Rows) -> str:
    lines, balanced = [], dict.fromkeys((5, 10, 20), 0.0)
    twins = sorted((row for name, row in rows.items() if name.startswith("skew-")), key=lambda row: row["ratio"])
    for row in twins:
        for table in row["tables"]:
            if row["ratio"] == 1:
                balanced[table["n"]] = max(balanced[table["n"]], abs(table["excess"]))
    for row in twins:
        shares = [each[row["concepts"][0]] for each in row["shares"].values()]
        for table in row["tables"]:
            beyond = row["ratio"] != 1 and abs(table["excess"]) > balanced[table["n"]]
            p = table["p_balanced"]
            lines.append(
                (
                    row["twin"],
                    percent(row["ratio"] / (1 + row["ratio"])),
                    " / ".join(percent(share) for share in shares),
                    table["n"],
                    f"{table['delta']['value']:+.3f}",
                    f"{table['null']['value']:+.3f}" if table["null"] else "–",
                    f"{table['excess']:+.3f}",
                    "–" if p is None else f"{p:.2g}",
                    "–" if row["ratio"] == 1 else "yes" if beyond else "no",
                )
            )
    head = ("twin", "share drawn, %", "share by judges, %", "top", "δ", "δ of balanced twins", "excess", "p, sampling")
    return markdown((*head, "beyond every balanced twin"), lines)


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

    told = {
        network: rows[f"masking-{network}"]["black"]["curves"] for network in NETWORKS if f"masking-{network}" in rows
    }
    judges = list(dict.fromkeys(curve["judge"] for found in told.values() for curve in found))
    figure = Figure(figsize=(3.4 * len(judges), 3.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, judge in zip(figure.subplots(1, len(judges), squeeze=False, sharey=True)[0], judges, strict=True):
        for place, (network, found) in enumerate(told.items()):
            for curve in found:
                if curve["judge"] == judge and (curve["order"] != "random" or place == 0):
                    random = curve["order"] == "random"
                    name, colour = ("random", "grey") if random else (network, COLOURS[place])
                    axes.plot(curve["counts"], curve["deletion"], "--" if random else "-", color=colour, label=name)
        axes.set_title(judge, fontsize=9)
        axes.set_xlabel("tokens hidden")
        axes.legend(fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


TABLES: tuple[tuple[str, str, Callable[[Rows], str]], ...] = (
    ("The generator", "generator", generator),
    ("Table 1: accuracy of extractors", "extractor-", extractors),
    ("Table 2: a concept's tokens hidden", "masking-", concept_sets),
    ("Table 3: accuracy of attribute extractors", "bias-", bias_accuracy),
    ("Table 4: whose tokens are in neutral samples", "bias-", bias),
    ("Table 5: images edited towards a partner", "pairs-", pairs),
    ("Biases of known size", "skew-", skew),
)


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="the folder of run.py")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args(arguments)
    found: Rows = {path.stem: read_json(path) for path in sorted((options.work / "rows").glob("*.json"))}
    parts = []
    if found:
        write_json(options.out / "results.json", {"rows": found})
    for title, prefix, table in TABLES:
        if any(name.startswith(prefix) for name in found):
            parts.append(f"## {title}\n\n{table(found)}")
    if any(name.startswith("masking-") for name in found):
        write_bytes(options.out / "figure-4.png", curves(found))
        parts.append("## Figure 4\n\n![probability against hidden tokens](figure-4.png)")
    told = options.out / "bridge.json"
    if told.exists():
        parts.append(f"## Prototypes of an IVQ-CBM, explained twice\n\n{bridge(read_json(told))}")
    for source, name in (("pictures/generator.png", "generator.png"), ("results/edit-0/edit.png", "edit.png")):
        if (options.work / source).exists():
            shutil.copy(options.work / source, options.out / name)
    write_text(options.out / "tables.md", "\n\n".join(["# CORTEX: all tables", *parts]) + "\n")
    print(f"{len(parts)} parts written to {options.out / 'tables.md'}")


if __name__ == "__main__":
    sys.exit(main())
