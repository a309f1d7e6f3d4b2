"""What docs/findings.md says with intervals, from raw rows; `scripts/evidence_check.py` looks for each piece there."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_json, stored

HERE = Path(__file__).parent
sys.path += [str(HERE / "cortex"), str(HERE / "gig")]

import seeds_tables  # noqa: E402
import sparsity_settings  # noqa: E402
import sparsity_tables  # noqa: E402

SETS = ("blood-cells", "ham10000", "idrid")
RANKED = ("blood-cells", "idrid", "ham10000")  # in which order ranks are told
CLASS, CONCEPTS = "class.balanced_accuracy", "concept.auc"
Tree = dict[str, Any]


def signed(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def interval(found: tuple[float, float, float], digits: int = 1) -> str:
    value, low, high = (signed(each, digits) for each in found)
    return f"{value} ({low} to {high})"


def listed(pieces: Iterable[str]) -> str:
    return ", ".join(pieces)


class Compared:
    """Differences of two rows of a table of ivq-ablations, in points."""

    def __init__(self, data: str) -> None:
        tables: Tree = read_json(stored(HERE / "ivq-ablations" / f"{data}.json"))["tables"]
        self.rows = {
            (table, row["measure"], row["first"], row["second"]): row
            for table, each in tables.items()
            for block in each["data"][0]["blocks"]
            for row in block["comparisons"]
        }

    def between(self, table: str, measure: str, one: str, other: str) -> tuple[float, float, float]:
        """One less other, and the ends of its interval."""
        turned = (table, measure, one, other) not in self.rows
        row = self.rows[(table, measure, other, one) if turned else (table, measure, one, other)]
        value, (low, high) = row["difference"], row["interval"]
        found = (-value, -high, -low) if turned else (value, low, high)
        return tuple(100 * each for each in found)  # type: ignore[return-value]


def ablations() -> list[str]:
    """Tables 3, 4, 5 and 10 and Figure 3 of IVQ-CBM."""
    sets = {data: Compared(data) for data in SETS}

    def three(table: str, measure: str, one: str, other: str) -> str:
        return listed(interval(sets[data].between(table, measure, one, other)) for data in SETS)

    made = [three("table3", CLASS, "IVQ", "no regularizer"), three("table3", CONCEPTS, "IVQ", "no regularizer")]
    made += [three("table3", CONCEPTS, "IVQ", "class token + IVQ"), three("table3", CLASS, "IVQ", "class token + IVQ")]
    made.append(three("table3", CONCEPTS, "cross-attention + IVQ", "IVQ"))
    made += [three("table4", CONCEPTS, "IVQ", f"explicit VQ{how}") for how in ("", " (moving averages)", " (rotation)")]
    others = ("Barlow Twins", "spectral norm", "Gram")
    spans = []
    for data in SETS:
        found = [sets[data].between("table5", CLASS, "IVQ", other) for other in others]
        spans.append(f"{signed(min(low for _, low, _ in found))} to {signed(max(high for *_, high in found))}")
    made.append(listed(spans))
    for codes in ("one code", "20 K codes"):
        made.append(three("figure3", CONCEPTS, "IVQ", codes))
    made.append(three("table10", CONCEPTS, "IVQ", "beta 1"))
    made.append(three("table10", CLASS, "IVQ", "beta 1"))
    return made


def released() -> list[str]:
    """IVQ less plain L2 in the published code: concept AUC."""
    made = []
    for data in read_json(stored(HERE / "ivq-rank" / "blood-idrid.json"))["data"]:
        rows = data["blocks"][0]["comparisons"]
        pair = next(
            row
            for row in rows
            if (row["measure"], row["first"], row["second"]) == (CONCEPTS, "released", "released with plain L2")
        )
        made.append(interval(tuple(100 * each for each in (pair["difference"], *pair["interval"]))))  # type: ignore[arg-type]
    return [listed(made)]


def ranks() -> list[str]:
    """Rank of the validation tokens before and after training: `runs.json` of ivq-rank, five seeds a row."""
    runs: list[Tree] = read_json(stored(HERE / "ivq-rank" / "runs.json"))["runs"]

    def ends(data: str, row: str, kind: str) -> tuple[float, float, float]:
        curves = [run["rank_by_epoch"][kind] for run in runs if run["run"].rsplit("-s", 1)[0] == f"{data}-{row}"]
        last = [curve[-1] for curve in curves]
        return float(np.mean([curve[0] for curve in curves])), float(np.mean(last)), float(np.std(last, ddof=1))

    def arrows(row: str, kind: str) -> str:
        found = [ends(data, row, kind) for data in RANKED]
        return listed(f"{start:.0f} → {end:.0f} ± {short(spread)}" for start, end, spread in found)

    made = []
    for row in ("released-without-ivq", "ivq-cbm-without-ivq"):
        made += [arrows(row, kind) for kind in ("published", "effective")]
    for row in ("released", "ivq-cbm"):
        made.append(f"{arrows(row, 'effective')} (published {arrows(row, 'published')})")
    last = {kind: [ends(data, "ivq-cbm", kind)[1:] for data in RANKED] for kind in ("effective", "published")}
    first, second, third = (f"{end:.0f} ± {short(spread)}" for end, spread in last["effective"])
    made.append(f"ends at {first}, {second} and {third}")
    made.append("the published one at {:.0f}, {:.0f} and {:.0f}".format(*(end for end, _ in last["published"])))
    plain = [ends(data, "released-with-plain-l2", "effective") for data in RANKED]
    other = [ends(data, "released-with-plain-l2", "published")[1] for data in RANKED]
    made.append(
        f"effective rank {listed(f'{end:.0f} ± {short(spread)}' for _, end, spread in plain)} and published "
        f"{listed(f'{end:.0f}' for end in other)}"
    )
    auc = [
        [run["test"]["concept.auc"] for run in runs if run["run"].rsplit("-s", 1)[0] == f"ham10000-{row}"]
        for row in ("released", "released-with-plain-l2")
    ]
    made.append(f"on HAM10000 {spread_of(auc[0])} against {spread_of(auc[1])}")
    return made


def tuned_ranks() -> list[str]:
    """Effective rank after the last epoch with each regularizer tuned alike; a start from scratch."""
    rows: list[Tree] = read_json(stored(HERE / "ivq-ablations" / "rows.json"))["rows"]

    def of(name: str, sets: Sequence[str] = SETS) -> str:
        found = []
        for data in sets:
            runs = [run for run in rows if run["run"].rsplit("-s", 1)[0] == f"{data}-{name}" and run.get("test")]
            found.append(float(np.mean([run["rank_by_epoch"][-1] for run in runs])))
        return listed(f"{value:.0f}" for value in found)

    made = [
        f"effective {of('ivq', RANKED)} against {of('no-regularizer', RANKED)} without",
        f"with L2 {of('plain-l2')}, with IVQ {of('ivq')}",
        f"Gram does not collapse ({of('gram')})",
    ]
    scratch: list[Tree] = read_json(HERE / "ivq-defaults" / "results.json")["runs"]
    kept = {name: [run for run in scratch if run["name"] == name] for name in ("default", "no-regularizer")}
    pair = [" against ".join(spread_of([run[kind] for run in kept[name]], 1) for name in kept) for kind in ("re", "rp")]
    made.append(f"effective {pair[0]}, published {pair[1]}")
    return made


def starts() -> list[str]:
    """Ranks from starts without the variance-covariance term."""
    sys.path.insert(0, str(HERE / "ivq-rank"))
    import backbones

    rows = backbones.read()
    told = backbones.told(rows)
    falls = told.pop(" | ".join(backbones.FALLS))
    counted = [piece for piece in backbones.counts(rows) if "trainings" not in piece and "rank ends" not in piece]
    return [*falls, *(pieces[0] for pieces in told.values()), *counted]


def table1() -> list[str]:
    """Balanced accuracy and concept AUC on frozen tokens."""
    found = read_json(stored(HERE / "ivq-table1" / "results.json"))["data"]
    rows = {(data, row["name"]): row["measures"] for data, each in found.items() for row in each}

    def cell(data: str, name: str, measure: str = CLASS) -> str:
        value = rows[data, name][measure]
        return f"{100 * value['mean']:.1f} ± {100 * value['sd']:.1f}"

    three = ("blood cells", "HAM10000", "IDRiD")
    return [
        f"{cell(three[0], 'ivq-cbm')} (others",
        f"{cell(three[1], 'ivq-cbm')} on HAM10000 (`magnet-cbm` {cell(three[1], 'magnet-cbm')})",
        f"{cell(three[2], 'ivq-cbm')} on IDRiD",
        f"concept AUC {cell(three[0], 'ivq-cbm', CONCEPTS)} against {cell(three[0], 'cbm', CONCEPTS)} of `cbm`",
        listed(f"{cell(data, 'ivq-cbm')} against {cell(data, 'black box')}" for data in three),
        f"CUB: {cell('CUB', 'ivq-cbm')} % against {cell('CUB', 'cbm')} of `cbm` and "
        f"{cell('CUB', 'explicd')} of `explicd`",
        f"{cell('CUB', 'pf-cbm')} against {cell('CUB', 'dot-cbm')}",
    ]


def uses() -> list[str]:
    """Tables 7 to 9 and Appendix K: what the head does with concepts."""
    trust = HERE / "trust"
    blood: dict[str, Tree] = read_json(stored(trust / "blood.json"))["rows"]
    full: list[Tree] = list(read_json(stored(trust / "full.json"))["rows"].values())
    mine = [row for name, row in blood.items() if name.startswith("blood-cells-ivq-cbm-s")]

    def finding(rows: list[Tree], name: str, what: str = "value") -> list[float]:
        return [row["findings"][name][what][0] for row in rows]

    def at_five(rows: list[Tree]) -> list[float]:
        return [row["path"]["5"][0] for row in rows]

    whole, gained = "accuracy of the model", "gained by the head from the class in scores beyond labels"
    pruned, mixed = "accuracy at NEC 5, own head pruned", "accuracy of random mixtures at NEC 5"
    tuned = [row for row in full if row["regularizer"] == "ivq"]
    made = [
        f"keeps {spread_of(at_five(mine))} of {spread_of(finding(mine, whole))}",
        f"pruned {spread_of(finding(mine, pruned))}",
        f"keep {spread_of(finding(mine, mixed))}",
        f"{spread_of(at_five(tuned))} of {spread_of(finding(tuned, whole))}",
    ]
    leak = {
        name: finding([row for row in full if row["regularizer"] == name], gained, "excess")
        for name in ("ivq", "l2", "none")
    }
    made.append(
        f"{spread_of(leak['ivq'])} beyond labels with IVQ, {spread_of(leak['l2'])} with L2, {spread_of(leak['none'])} "
        "with nothing"
    )
    made.append(f"IVQ less L2 {spread_of(list(np.subtract(leak['ivq'], leak['l2'])))}")
    refined = next(row for row in read_json(trust / "refine.json")["rows"] if row["measure"] == "class.accuracy")
    contrast = {each["name"]: each["estimate"] for each in refined["contrasts"]}
    for name in ("after − before", "after − control"):
        made.append(interval((contrast[name]["value"], *contrast[name]["interval"]), 3))
    maps: list[Tree] = list(read_json(stored(trust / "regularizers.json"))["rows"].values())
    parts = {
        name: [row["targets"]["part"]["maps"]["own"]["energy"][0] for row in maps if row["regularizer"] == name]
        for name in ("ivq", "none")
    }
    made.append(f"{spread_of(parts['ivq'])} on the part with it and {spread_of(parts['none'])} without")
    return made


def grounded() -> list[str]:
    """PF-CBM on CUB: differences with intervals over images, and Table 3 on blood cells."""
    found = read_json(HERE / "pf-cbm" / "verdicts.json")

    def away(name: str, measure: str = "pointing_patch", digits: int = 3) -> str:
        each = found[name][measure]
        return interval((each["difference"], *each["interval"]), digits)

    return [
        away("cub-full: no_bbox_spatial_prior beats no_bbox_pca"),
        away("cub-full-resnet50: no_bbox_spatial_prior beats no_bbox_pca"),
        f"pointing {away('0.5% of the points is as good as all (within 0.01)', digits=4)}",
        f"five images {away('0.1% of the points is as good as all (within 0.01)', digits=4)}",
        f"pointing {away('joint-112 is as good as joint-312')}",
    ]


def conditions() -> list[str]:
    """Rows of PF-CBM's conditions on drawings, with both measures of pointing."""
    rows = [json.loads(line) for line in _lines("pf-cbm/conditions.jsonl")]
    made = []

    def of(name: str, measure: str, weight: float = 0.001) -> str:
        return spread_of(
            [row[measure] for row in rows if (row["condition"], row.get("entropy_weight")) == (name, weight)]
        )

    for name in ("no_bbox_pca", "no_bbox_spatial_prior", "no_bbox_no_kp"):
        made.append(f"{of(name, 'pointing_patch')} and {of(name, 'pointing_cells')}")
    right = {name: of(name, "top1") for name in ("no_bbox_spatial_prior", "no_bbox_pca", "no_bbox_no_kp")}
    made.append("{} against {} (neither {})".format(*right.values()))
    nothing = [of("no_bbox_no_kp", "pointing_patch", weight) for weight in (0, 0.001)]
    made.append(f"{nothing[0]} with entropy 0, {nothing[1]} with 0.001")
    pseudo = [of(name, "pointing_patch") for name in ("pseudo_kp", "pseudo_kp_tight")]
    made.append(f"{pseudo[0]}, tight {pseudo[1]}, no points {nothing[1]}")
    return made


def tokens() -> list[str]:
    """CORTEX: extractors, hidden tokens, biases and edits, as means over four judges."""
    rows: Tree = read_json(stored(HERE / "cortex" / "results.json"))["rows"]
    made = []
    found = [rows[f"extractor-fine-{name}"]["accuracy"]["top-1"] for name in ("CE", "RE", "TE")]
    made.append(listed(f"{100 * value:.1f}" for value in found) + " %")
    left: dict[str, list[float]] = {}
    for name in ("CE", "RE", "TE"):
        for curve in rows[f"masking-{name}"]["blur"]["curves"]:
            key = "random" if curve["order"] == "random" else name
            left.setdefault(f"{key} {name}", []).append(curve["deletion"][curve["counts"].index(20)])
    at = {name: np.mean(values) for name, values in left.items()}
    drawn = [value for name, value in at.items() if name.startswith("random")]
    made.append(
        f"20 tokens blurred leave {at['CE CE']:.2f} (CE), {at['RE RE']:.2f} (RE), {at['TE TE']:.2f} (TE), random "
        f"{min(drawn):.2f} to {max(drawn):.2f}"
    )
    wanted = {
        method: [
            each["target_change"]
            for name in ("CE", "RE")
            for each in rows[f"pairs-{name}-4"]["rows"]
            if each["method"] == method
        ]
        for method in ("tokens", "embeddings")
    }
    spans = {name: f"+{min(values):.2f} to +{max(values):.2f}" for name, values in wanted.items()}
    made.append(f"{spans['tokens']} against {spans['embeddings']}")
    skewed = {ratio: rows[f"skew-{ratio}-s0"]["tables"][0]["excess"] for ratio in ("1.25", "8")}
    made.append(f"1.25 : 1 gives {skewed['1.25']:+.3f} and 8 : 1 {skewed['8']:+.3f}")
    found = [rows[f"skew-{ratio}-s0"] for ratio in ("1.25", "1.5", "2", "4", "8")]
    right = [table["excess"] > 0 for row in found for table in row["tables"]]  # big cells were drawn more often
    made.append(f"sign right in {sum(right)} of {len(right)}")
    off = [
        pair["excess"]
        for name in ("cytoplasm-texture", "granularity")
        for table in rows[f"bias-{name}"]["tables"]
        for pair in table["pairs"]
    ]
    made.append(f"excess +{min(off):.2f} to +{max(off):.2f}")
    told = read_json(HERE / "cortex" / "figure-7.json")["rows"]
    made.append(f"in {min(r['with_token'] for r in told)} to {max(r['with_token'] for r in told)} of")
    return made


def seeded_tokens() -> list[str]:
    """CORTEX with seeds: Tables 1 and 2, and δ of the copies with fixed token sets."""
    rows = [json.loads(line) for line in _lines("cortex/seeds.jsonl")]
    top = {}
    for name in ("CE", "RE", "TE"):
        mine = [row["accuracy"]["top-1"] for row in rows if row["key"].startswith(f"extractor/{name}/")]
        top[name] = f"{100 * float(np.mean(mine)):.1f}"
    made = [f"five classes {', '.join(top.values())} %"]
    hidden = seeds_tables.hidden_rows(rows)

    def apart(network: str, fill: str, first: str, second: str) -> str:
        pair = [seeds_tables.changes(hidden[network, fill, kind]) for kind in (first, second)]
        return seeds_tables.words(seeds_tables.interval(pair[0] - pair[1]))

    made += [apart(name, fill, "20 most important", "20 random") for name in ("CE", "RE") for fill in ("blur", "black")]
    for kind in ("", ", k = 6"):
        rivals = ("frequency", "frequency, equally many", "random, equally many")
        for rival in rivals if not kind else rivals[::2]:
            other = f"{rival}{kind}" if "," not in rival else rival.replace(",", f"{kind},", 1)
            made.append(apart("CE", "blur", f"concept sets{kind}", other))
    made.append(apart("CE", "black", "concept sets", "frequency"))
    number = {
        kind: np.mean([row["hidden"] for row in hidden["CE", "blur", kind].values()])
        for kind in ("concept sets", "frequency")
    }
    made.append(f"{number['concept sets']:.1f} positions against {number['frequency']:.1f}")
    found: Tree = read_json(stored(HERE / "cortex" / "fixed-sets.json"))
    copies = seeds_tables.copies_of(found)
    truth = [seeds_tables.judged(found, name) for name in copies]
    ranks = [
        seeds_tables.rank_correlation([row["delta"][name] for name in copies], truth)
        for row in found["rows"]
        if row["count"] == 10000
    ]
    made.append(f"rank correlation with what judges see {min(ranks):.2f} to {max(ranks):.2f}")
    return made


def at_equal_sparsity() -> list[str]:
    """GIG: dictionary learning less clusters at the paper's number of concepts a vector."""
    rows = [json.loads(line) for line in _lines("gig/sparsity.jsonl")]
    place = sparsity_settings.TIMES.index(1.0)
    errors = sparsity_tables.by_seed(rows, "errors")
    made = []
    for layer in ("layer1.1", "layer2.0", "layer2.2", "layer3.0", "layer3.2", "layer3.4", "layer4.0"):
        pair = sparsity_tables.pair_of(errors, layer, "dictionary learning", place)
        if pair is not None:
            made.append(sparsity_tables.words(pair[1] - pair[0]).strip("*"))
    line = next(line for line in sparsity_tables.orders(rows).splitlines() if line.startswith("| layer4.2"))
    return [*made, *(cell.strip(" *") for cell in line.strip("|").split("|")[4:])]


def equal_entropies() -> list[str]:
    """PF-CBM on CUB with settings and entropies alike."""
    rows = [json.loads(line) for line in _lines("pf-cbm/equal.jsonl")]

    def of(name: str, measure: str, entropy: float) -> str:
        mine = [
            row for row in rows if row["trial"] == "equal" and (row["condition"], row["entropy"]) == (name, entropy)
        ]
        return spread_of([row[measure] for row in mine])

    names = ("pseudo_kp", "pseudo_kp_tight", "no_bbox_no_kp")
    none, tight, nothing = (of(name, "pointing_patch", 0) for name in names)
    return [
        f"{none}, tight {tight}, no points {nothing}",
        listed(of(name, "pointing_cells", 0) for name in names),
        listed(of(name, "pointing_patch", 0.001) for name in names),
    ]


def decomposed() -> list[str]:
    """GIG: layers won at the paper's sparsity and beyond."""
    rows = [json.loads(line) for line in _lines("gig/rows.jsonl")]
    gains = {
        subject: [
            next(each["over_random"] for each in row["orders"] if each["order"] == "gig")
            for row in rows
            if row["key"].startswith(f"{subject}/between")
        ]
        for subject in ("resnet50", "vit")
    }
    spans = {name: f"+{min(values):.2f} to +{max(values):.2f}" for name, values in gains.items()}
    above = sum(gain > 0 for gain in gains["resnet50"])
    sizes = {row["layer"]: row["sizes"] for row in rows if row["key"].startswith("resnet50/sizes")}["layer1.2"]
    ends = [sizes[place]["points"][0]["relative_l2"] for place in (0, -1)]
    return [
        f"{spans['resnet50']} (ResNet-50, {above} of {len(gains['resnet50'])} transitions)",
        f"{spans['vit']} (ViT, 4 images)",
        f"({ends[0]:.3f} → {ends[1]:.3f} in layer1.2)",
    ]


def short(value: float) -> str:
    return f"{value:.1f}" if value < 0.95 else f"{value:.0f}"


def spread_of(values: list[float], digits: int = 3) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def _lines(name: str) -> list[str]:
    from conceptlens.core.files import read_text

    return [line for line in read_text(stored(HERE / name)).splitlines() if line]


def learning() -> list[str]:
    """Table 1 where two blocks of the encoder learn."""
    sys.path.insert(0, str(HERE / "ivq-table1"))
    import fine_tuned

    return fine_tuned.sentences(fine_tuned.read())


def statements() -> list[str]:
    ivq = [*ablations(), *released(), *ranks(), *tuned_ranks(), *starts(), *table1(), *learning(), *uses()]
    return [
        *ivq,
        *grounded(),
        *conditions(),
        *tokens(),
        *seeded_tokens(),
        *decomposed(),
        *at_equal_sparsity(),
        *equal_entropies(),
    ]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
