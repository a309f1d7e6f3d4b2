"""What README.md says in sentences and typed tables, from the rows; `scripts/evidence_check.py` looks for each."""

import json
from pathlib import Path

from gig_tables import MAKERS, PAPER_ZEROS, Report, Row, by_sparsity

from conceptlens.core.files import read_json, read_text, stored

HERE = Path(__file__).parent


def report(rows: list[Row], name: str) -> Report:
    made = Report(name, [row for row in rows if row["key"].startswith(f"{name}/")])
    for part in (made.accuracy, made.reconstruction, made.curves, made.orders, made.sizes):
        part()
    return made


def over_random(row: Row) -> dict[str, float]:
    return {each["order"]: each["over_random"] for each in row["orders"]}


def span(values: list[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def statements() -> list[str]:
    """Pieces of sentences and of typed rows with the numbers as the rows give them."""
    rows: list[Row] = [json.loads(line) for line in read_text(stored(HERE / "rows.jsonl")).splitlines() if line]
    resnet, vit = report(rows, "resnet50"), report(rows, "vit")
    made: list[str] = []
    names = ("clusters", "dictionary learning", "autoencoder")
    for maker, name in zip(MAKERS, names, strict=True):
        mine = {row["layer"]: row["own"] for row in resnet.of("dictionaries") if row["maker"] == maker}
        cells = [f"{mine[layer]['relative_l2']:.3f} / {mine[layer]['zero_share']:.4f}" for layer in PAPER_ZEROS]
        made.append(f"| {name}, here | {' | '.join(cells)} |")
    sizes = {
        row["layer"]: [f"{one['points'][0]['relative_l2']:.3f}" for one in row["sizes"]] for row in resnet.of("sizes")
    }
    made.append("| here | " + " | ".join(" ".join(sizes[layer]) for layer in sorted(sizes)))
    wins = {name: verdicts for name, verdicts in resnet.verdicts.items() if isinstance(verdicts, dict)}
    equal = wins["lowest error at equal sparsity, same lasso (layers)"]
    made.append(
        f"dictionary learning lowest in {equal['dictionary learning']} layers**, clusters in {equal['clusters']} "
    )
    curve = wins["largest insertion − deletion, matched (layers)"]
    made.append(
        f"dictionary learning best in {curve['dictionary learning']}, the autoencoder in {curve['sparse autoencoder']} "
        f"(all of layer4 among them), clusters in {curve['clusters']} "
    )
    own = wins["largest insertion − deletion, own (layers)"]
    made.append(f"dictionary learning {own['dictionary learning']}, autoencoder {own['sparse autoencoder']} ")
    theirs = vit.verdicts["largest insertion − deletion, own (layers)"]
    made.append(f"autoencoder {theirs['sparse autoencoder']}, dictionary learning {theirs['dictionary learning']} ")
    gains = [over_random(row)["gig"] for row in resnet.of("between")]
    small = [over_random(row)["gig"] for row in vit.of("between")]
    made.append(f"in {sum(gain > 0 for gain in gains)} of {len(gains)}, by {span(gains, 2)}")
    made.append(f"in {sum(gain > 0 for gain in small)} of {len(small)}, by {span(small, 2)} (4 images)")
    orders = [over_random(row) for row in resnet.of("orders")]
    led = [order for order in orders if max(order, key=lambda name: order[name]) == "gig"]
    behind = {
        name: [order["gig"] - order[name] for order in led] for name in ("captum gradient shap", "gradient x input")
    }
    made.append(
        f"first in {len(led)} of {len(orders)} layers; gradient SHAP {span(behind['captum gradient shap'], 2)} behind"
    )
    every = [order["gig"] - order["gradient x input"] for order in orders]
    made.append(f"gradient × input {span(every, 2)} behind")
    known = {row["key"].split("/")[-1]: row for row in resnet.of("accuracy")}
    hits = sorted(row["top1"] for row in known.values())
    made.append(f"knows {100 * hits[-1]:.1f} % of the 500 held-out photographs")
    made.append(f"and {100 * hits[0]:.1f} % of Imagenette's")
    left = {
        (coding, maker): [
            row["residual_share"] for row in resnet.of("curves") if (row["coding"], row["maker"]) == (coding, maker)
        ]
        for coding in ("matched", "own")
        for maker in MAKERS
    }
    matched, learned = left["matched", "clusters"], left["matched", "dictionary learning"]
    made.append(f"{100 * min(matched):.0f} to {100 * max(matched):.0f} % of a class's probability")
    made.append(f"(dictionary learning {100 * min(learned):.0f} to {100 * max(learned):.0f} %")
    alone = left["own", "clusters"]
    made.append(f"with own means {100 * min(alone):.0f} to {100 * max(alone):.0f} % is left (clusters)")
    purity = {(row["layer"], row["maker"]): row["class_purity"] for row in resnet.of("sheets")}
    pair = [100 * purity["layer4.2", maker] for maker in ("clusters", "sparse autoencoder")]
    made.append(f"{pair[0]:.0f} % (clusters) and {pair[1]:.0f} % (autoencoder) are of one class")
    at_paper = next(line for line in by_sparsity(rows).splitlines() if line.startswith("| 1 |"))
    _, ours, theirs_too, *_ = [cell.strip() for cell in at_paper.strip("|").split("|")]
    made.append(f"it is {ours} : {theirs_too}** on the paper's eight layers")
    return [*made, *graphs()]


def graphs() -> list[str]:
    """The border collie's graphs: what stays, and what is unexplained."""
    rows = read_json(HERE / "graphs.json")["rows"]
    of = {(row["graph"], row["layer"]): row for row in rows if row["run"] == "resnet50"}
    layers = ("layer2.3", "layer3.5", "layer4.1", "layer4.2")
    stay = {kind: [of[kind, layer]["stay"] for layer in layers] for kind in ("noise", "attack")}
    left = {kind: f"{100 * of[kind, 'layer4.2']['unexplained_of_shown']:.0f} %" for kind in stay}
    named = [row for row in rows if row["run"] == "named"]
    both = next(row for row in rows if (row["run"], row["graph"], row["layer"]) == ("resnet50", "main", "layer4.2"))
    collie, slug = (100 * both["unexplained_of_shown"][name] for name in ("Border collie", "sea slug"))
    over = [f"{row['over_random']:.1f}" for row in named if row["graph"] == "validation"]
    worst = next(row["completeness_worst"] for row in named if row["graph"] == "main")
    shares = {kind: [100 * row["error_share"] for row in named if row["graph"] == kind] for kind in ("image", "main")}
    return [
        f"in layer4.2 {collie:.0f} % is the unexplained part, of the sea slug's {slug:.0f} %",
        "{}, {} and {} above random order".format(*over),
        f"misses by {100 * worst:.1f} %",
        "{:.0f} to {:.0f} % is unexplained".format(min(shares["image"]), max(shares["image"])),
        "both outputs {:.0f} to {:.0f} % is".format(min(shares["main"]), max(shares["main"])),
        "{}, {}, {} and {} stay (layer2.3".format(*stay["noise"]),
        "{}, {}, {} and {} of 12 or 13 stay".format(*stay["attack"]),
        f"{left['noise']} of what is shown for the new class",
        f"{left['attack']} of what is shown for it in layer4.2",
        f"{100 * of['image', 'layer4.2']['error_share']:.0f} % of what layer4.2 adds is unexplained, "
        f"in layer2.3 {100 * of['image', 'layer2.3']['error_share']:.0f} %",
    ]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
