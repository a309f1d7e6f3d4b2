"""Tables and sentences of README.md, from their rows; `scripts/evidence_check.py` looks for each line."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import raw_rows
import seeds_tables
import tables

from conceptlens.core.files import read_json

HERE = Path(__file__).parent
REGIONS = ("nucleus", "cytoplasm")
SETS = {
    "concept sets": "",
    "frequency": "frequent",
    "frequency, equally many": "frequent, as many as CE",
    "random, equally many": "random, as many as CE",
}


def minus(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def figure7() -> list[str]:
    lines = []
    rows = read_json(HERE / "figure-7.json")["rows"]
    for row in rows:
        places = [f"{100 * row['on'][name]:.0f} ({100 * row['any_position_on'][name]:.0f})" for name in REGIONS]
        lines.append(
            f"| {row['concept']} | {row['token']} | {row['lift']:.0f} | {row['with_token']} of {row['test_images']} "
            f"| {row['positions']} | {' | '.join(places)} |"
        )
    return [*lines, f"{sum(row['with_token'] for row in rows)} test images"]


def lines_of(table: str) -> list[str]:
    """The rows of a table, without its head."""
    return [line for line in table.splitlines() if line.startswith("|") and not line.startswith("| ---")][1:]


def printed_as_they_are() -> list[str]:
    """Tables that README.md takes over from tables.md: mixtures and the two of the bridge."""
    mixed = lines_of(tables.mixtures(read_json(HERE / "mixtures.json.gz")))
    values, hidden = tables.bridge(read_json(HERE / "bridge.json.gz")).split("\n\n")
    return [*mixed, *lines_of(values), *lines_of(hidden)]


def generator(rows: tables.Rows) -> list[str]:
    row = rows["generator"]
    found, loss = row["reconstruction"], row["token_loss"]
    return [
        f"all {found['codebook']['codes']:,} codes are used (perplexity {found['codebook']['perplexity']:.0f})",
        f"the mean absolute error of pixels is {found['mean_absolute']:.3f}, PSNR {found['psnr']:.1f} dB",
        f"cost {loss['training images']:.2f} nats in training images and {loss['test images']:.2f} in test images",
    ]


def extractors(rows: tables.Rows) -> list[str]:
    made = []
    for kind, tops in (("classes", (1,)), ("fine", (1, 3, 5, 10))):
        for top in tops:
            found = [rows[f"extractor-{kind}-{name}"]["accuracy"][f"top-{top}"] for name in tables.NETWORKS]
            made.append(" · ".join(f"{100 * value:.1f}" for value in found).replace("100.0", "100"))
    return made


def hidden_tokens(rows: tables.Rows) -> list[str]:
    """Table 2, a line a set of tokens, and Figure 4's numbers at 20 tokens."""
    made = []
    for network in tables.NETWORKS:
        fills = {fill: rows[f"masking-{network}"][fill]["sets"] for fill in ("black", "blur")}
        for key, words in SETS.items():
            if words and network != "CE":
                continue
            mine = {fill: [each for each in some if each["tokens"] == key] for fill, some in fills.items()}
            cells = [f"{mine['black'][0]['hidden']:.1f}"]
            for fill in ("black", "blur"):
                cells.append(" · ".join(minus(100 * each["accuracy_change"], 1) for each in mine[fill]))
                cells.append(" · ".join(minus(each["probability_change"], 2) for each in mine[fill]))
            made.append(f"| {words or network} | {' | '.join(cells)} |")

    def at_20(network: str, fill: str, order: str, what: str = "deletion") -> float:
        curves = [c for c in rows[f"masking-{network}"][fill]["curves"] if c["order"] == order]
        return float(np.mean([curve[what][curve["counts"].index(20)] for curve in curves]))

    blurred = {name: at_20(name, "blur", "importance") for name in tables.NETWORKS}
    made.append(f"P = {blurred['CE']:.2f} (CE), {blurred['RE']:.2f} (RE), {blurred['TE']:.2f} (TE)")
    random = at_20("CE", "blur", "random")
    made.append(f"random {random:.2f}, CE {blurred['CE']:.2f}, RE {blurred['RE']:.2f}")
    back = [at_20(name, "blur", "importance", "insertion") for name in ("CE", "RE")]
    made.append(f"{back[0]:.2f} (CE), {back[1]:.2f} (RE), {at_20('CE', 'blur', 'random', 'insertion'):.2f} (random)")
    black, guess = at_20("TE", "black", "importance"), at_20("TE", "black", "random")
    made.append(f"{black:.2f} with black (random {guess:.2f}), {blurred['TE']:.2f} with blur")
    return made


def edits(rows: tables.Rows) -> list[str]:
    """Table 5: change of the probability of the class it was / of the class wanted."""
    made = []
    for side in (4, 8):
        found: dict[str, list[str]] = {}
        for method in ("embeddings", "tokens"):
            for network in ("CE", "RE"):
                for each in rows[f"pairs-{network}-{side}"]["rows"]:
                    if each["method"] == method:
                        pair = f"{minus(each['original_change'], 3)} / {minus(each['target_change'], 3)}"
                        found.setdefault(each["judge"], []).append(pair)
        made += [f"| {' | '.join(cells)} |" for cells in found.values()]
    return made


def copies(rows: tables.Rows) -> list[str]:
    """Biases of known size, a line a copy."""
    made = []
    for row in sorted((row for name, row in rows.items() if name.startswith("skew-")), key=lambda row: row["ratio"]):
        shares = " · ".join(f"{100 * each[row['concepts'][0]]:.0f}" for each in row["shares"].values())
        excess = " · ".join(minus(table["excess"], 3) for table in row["tables"])
        made.append(f"| {shares} | {excess} |")
    return made


def again() -> list[str]:
    """What seeds, all training samples and fixed token sets gave."""
    rows = raw_rows.read(seeds_tables.FILE)
    hidden = seeds_tables.hidden_rows(rows)

    def mean(network: str, kind: str, less: str | None = None) -> float:
        values = seeds_tables.changes(hidden[network, "blur", kind])
        return float((values - seeds_tables.changes(hidden[network, "blur", less]) if less else values).mean())

    pair = [minus(mean("CE", kind), 3) for kind in ("concept sets", "frequency")]
    few = [minus(mean("CE", f"{kind}, k = 6"), 3) for kind in ("concept sets", "frequency")]
    more = [f"{-mean(name, 'concept sets', 'concept sets from 50 samples'):.3f}" for name in ("CE", "RE")]
    twenty = [minus(mean(name, "20 most important", "20 random"), 3) for name in ("CE", "RE")]
    found = read_json(seeds_tables.SETS)
    copies = seeds_tables.copies_of(found)
    truth = [seeds_tables.judged(found, name) for name in copies]
    ranks = [
        seeds_tables.rank_correlation([row["delta"][name] for name in copies], truth)
        for row in found["rows"]
        if row["count"] == 10000
    ]
    return [
        f"ΔP {pair[0]} against {pair[1]}",
        f"{few[0]} against {few[1]}",
        f"take {more[0]} (CE) and {more[1]} (RE) more",
        f"{twenty[0]} (CE) and {twenty[1]} (RE) with blur",
        f"{min(ranks):.2f} to {max(ranks):.2f} in all {len(ranks)} combinations",
    ]


def statements() -> list[str]:
    rows: tables.Rows = read_json(HERE / "results.json.gz")["rows"]
    parts = (generator, extractors, hidden_tokens, edits, copies)
    return [*again(), *figure7(), *printed_as_they_are(), *(line for part in parts for line in part(rows))]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
