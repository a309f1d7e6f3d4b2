"""The tables of this folder's page, between their markers."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from figures import BEYOND, FAITHFUL, GAINED, accused, by_label, detectors, mean, roc, rows
from results import HERE
from scipy.stats import binomtest, ttest_rel

from conceptlens.core.files import read_json, write_text
from conceptlens.data.sources.shapes import HIDDEN
from conceptlens.evaluation.interventions.order import POLICIES

sys.path.insert(0, str(Path(__file__).parents[1]))

import raw_rows  # a neighbor
from raw_rows import spread

PRUNED, WRONG, YARDSTICK = (
    "accuracy at NEC 5, own head pruned",
    "accuracy with half of the concepts wrong",
    "of a bottleneck of labels, half of them wrong",
)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return raw_rows.table(head, lines) if lines else "Not yet run."


def value(row: dict[str, Any], name: str) -> float | None:
    found = row["findings"].get(name)
    return None if found is None or found["value"] is None else found["value"][0]


def alarms() -> str:
    lines = []
    for name, (hit, of) in accused().items():
        low, high = binomtest(hit, of).proportion_ci()
        lines.append([name, str(of), f"{hit / of:.1%}", f"{low:.1%} to {high:.1%}"])
    return table(["world", "draws", "accused", "95 %"], lines)


def headroom() -> str:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows("headroom.json.gz").items():
        found.setdefault(name.rpartition(" ")[0], []).append(row)
    lines = [
        [
            name,
            str(len(members)),
            spread([row["start"][0] for row in members]),
            spread([row["ceiling"][0] for row in members]),
            *(spread([row["right"]["chance"][step][0] for row in members]) for step in (3, -1)),
            *(spread([row["right"][policy][3][0] for row in members]) for policy in POLICIES[1:]),
            spread([row["wrong"]["chance"][3][0] for row in members]),
        ]
        for name, members in found.items()
    ]
    head = ["world, method", "seeds", "nothing corrected", "labels → class", "three groups, by chance", "all groups"]
    return table([*head, *(f"three, by {policy}" for policy in POLICIES[1:]), "three wrong"], lines)


def codes() -> str:
    lines = []
    for name, row in rows("codes.json.gz").items():
        aucs: dict[bool, list[float]] = {True: [], False: []}
        for concept, each in row["concepts"].items():
            if each["auc"] is not None:
                aucs[concept.startswith(HIDDEN)].append(each["auc"])
        lines.append(
            [
                name, str(row["codes"]), f"{row['perplexity']:.1f}", str(len(row["dormant"])),
                f"{row['matchings']['co-assignment']['p']:.2f}", spread(aucs[False]), spread(aucs[True]),
                row["says"] or "–",
            ]
        )  # fmt: skip
    head = ["run", "codes", "perplexity", "dormant", "match, p", "AUC of visible concepts", "of invisible ones"]
    return table([*head, "the audit says"], lines)


def detect() -> str:
    lines, draw = [], np.random.default_rng(0)
    for name, (hidden, values) in detectors().items():
        truth, numbers = np.array(hidden), np.array(values)
        sides = [np.flatnonzero(truth), np.flatnonzero(~truth)]
        areas = []
        for _ in range(1000):
            again = np.concatenate([draw.choice(side, len(side)) for side in sides])
            areas.append(_area(truth[again].tolist(), numbers[again].tolist()))
        low, high = np.quantile(areas, [0.025, 0.975])
        lines.append(
            [name, f"{sum(hidden)} of {len(hidden)}", f"{_area(hidden, values):.2f}", f"{low:.2f} to {high:.2f}"]
        )
    return table(["sign", "invisible", "area under ROC", "95 %"], lines)


def _area(hidden: Sequence[bool], values: Sequence[float]) -> float:
    wrong, right = roc(hidden, values)
    return float(np.trapezoid(right, wrong))


def leakage(file: str) -> Callable[[], str]:
    def make() -> str:
        found, lines = by_label(file), []
        for label in sorted(found, key=lambda each: -mean(found[each], GAINED)):
            members = found[label]
            lines.append(
                [
                    label,
                    str(len(members)),
                    spread([value(row, "accuracy of the model") for row in members]),
                    spread([value(row, "class from true labels (ceiling)") for row in members]),
                    spread([row["concept_accuracy"] for row in members]),
                    spread([row["findings"][GAINED]["excess"][0] for row in members]),
                    spread([row["findings"][BEYOND]["excess"][0] for row in members]),
                    ", ".join(f"{row['certain_concepts']}" for row in members) + f" of {members[0]['concepts']}",
                    f"{sum(bool(row['leaks']) for row in members)} of {len(members)}",
                    members[0]["bypass"] or "–",
                ]
            )
        head = [
            "method",
            "seeds",
            "class accuracy",
            "labels → class",
            "concept bal. acc.",
            "gained by the head beyond labels",
        ]
        return table([*head, "nats beyond its label, mean", "certain concepts", "leaks", "bypass"], lines)

    return make


def paired() -> str:
    """IVQ against the others, seed by seed."""
    gains = {
        label: np.array([row["findings"][GAINED]["excess"][0] for row in sorted(found, key=lambda row: row["seed"])])
        for label, found in by_label("full.json.gz").items()
    }
    lines = []
    for other in ("ivq-cbm-with-plain-l2", "ivq-cbm-without-ivq"):
        difference = gains["ivq-cbm"] - gains[other]
        p = ttest_rel(gains["ivq-cbm"], gains[other]).pvalue
        lines.append([f"ivq-cbm − {other}", spread(difference.tolist()), f"{p:.3f}"])
    return table(["gained by the head beyond labels, paired by seed", "difference", "p (t-test)"], lines)


def use(file: str) -> Callable[[], str]:
    def make() -> str:
        found, lines = by_label(file), []
        for label in sorted(found):
            members = found[label]
            ends = [row["interventions"]["right"]["chance"] for row in members]
            lines.append(
                [
                    label,
                    spread([value(row, "accuracy of the model") for row in members]),
                    spread([value(row, PRUNED) for row in members]),
                    spread([value(row, "accuracy along the sparse path, mean") for row in members]),
                    spread([value(row, "accuracy of random mixtures at NEC 5") for row in members]),
                    spread([value(row, WRONG) for row in members]),
                    spread([value(row, YARDSTICK) for row in members]),
                    spread([each[-1] for each in ends]),
                    spread([row["interventions"]["flips"] for row in members], 1),
                ]
            )
        head = ["method", "full head", "NEC 5, pruned (Table 8)", "sparse path 5–30", "random mixtures, NEC 5"]
        return table([*head, "half wrong", "labels, half wrong", "all corrected", "answers to flip"], lines)

    return make


def counterfactuals() -> str:
    lines = []
    for label, members in sorted(by_label("blood.json.gz").items()):
        tests = [test for row in members for test in row["interventions"]["counterfactuals"]]
        if not tests:
            lines.append([label, "no image surer than 0.9", "", "", ""])
            continue
        start = [test["rows"][0][1][0] for test in tests]
        end = [test["rows"][-1][1][0] for test in tests]
        change = [test["rows"][-1][2][0] for test in tests]
        others = [test["random"][0] for test in tests if test["random"] is not None]
        lines.append(
            [
                label,
                str(sum(test["images"] for test in tests)),
                *(spread(each) for each in (start, end, change, others)),
            ]
        )
    head = ["method", "images", "P before", "P after, two groups at other classes' means", "relative change"]
    return table([*head, "two other groups at random"], [[*line, ""][:6] for line in lines])


def maps() -> str:
    lines = []
    for name, row in sorted(rows("maps.json.gz").items()):
        for target, one in row["targets"].items():
            for kind in ("own", "gradcam"):
                if kind not in one["maps"]:
                    continue
                found, center, free = one["maps"][kind], one["maps"]["center_prior"], one["maps"]["mean_region"]
                against = one["against"].get(f"{kind} - center_prior", [None] * 3)
                lines.append(
                    [
                        name, target, kind, str(row["images"]), _three(found["energy"]), _one(center["energy"]),
                        _one(free["energy"]), _one(one["maps"]["uniform"]["energy"]), _three(against),
                        _one(found["pointing"]),
                    ]
                )  # fmt: skip
    head = [
        "data, method, seed",
        "region",
        "map",
        "images",
        "energy",
        "center prior",
        "image-free",
        "uniform",
        "map − center prior",
        "pointing",
    ]
    return table(head, lines)


def regularizers() -> str:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows("regularizers.json.gz").values():
        found.setdefault(row["regularizer"], []).append(row)
    lines = [
        [name, str(len(members)), *(spread([take(row)[0] for row in members]) for take in FAITHFUL.values())]
        for name, members in sorted(found.items())
    ]
    return table(["regularizer", "seeds", *(name.replace("\n", " ") for name in FAITHFUL)], lines)


def faithfulness() -> str:
    lines = []
    for name, row in {**dict(sorted(rows("maps.json.gz").items())), **rows("regularizers.json.gz")}.items():
        found = row["faithfulness"]
        for kind in ("own", "gradcam"):
            if kind not in found["curves"]:
                continue
            against = found["against_random"][kind]
            wins = found["occlusion"].get("wins")
            lines.append(
                [
                    name, kind, str(found["images"]), _three(against["insertion"]), _three(against["deletion"]),
                    "–" if wins is None else _three(wins), _one(found["stability"][kind]),
                    _one(found["other_image"][kind]), _one(found["randomized"][kind]),
                ]
            )  # fmt: skip
    head = ["run", "map", "images", "insertion − random", "deletion − random", "own part moves it more", "stability"]
    return table([*head, "another image", "shuffled weights"], lines)


def refine() -> str:
    if not (HERE / "refine.json").exists():
        return "Not yet run."
    found = read_json(HERE / "refine.json")
    lines = [
        [
            row["name"],
            *(_estimate(row["values"].get(side)) for side in ("before", "after", "control")),
            *(f"{_estimate(each['estimate'])}, p = {each['p']:.2f}" for each in row["contrasts"]),
        ]
        for row in found["rows"]
    ]
    return table(
        ["measure", "before", "after", "random concept", "after − before", "random − before", "after − random"], lines
    )


def _estimate(each: dict[str, Any] | None) -> str:
    return "–" if each is None else _three([each["value"], *(each["interval"] or [None, None])])


def _one(estimate: Sequence[float | None]) -> str:
    return "–" if estimate[0] is None else f"{estimate[0]:.3f}"


def _three(estimate: Sequence[float | None]) -> str:
    if estimate[0] is None or estimate[1] is None:
        return _one(estimate)
    return f"{estimate[0]:.3f} [{estimate[1]:.3f}, {estimate[2]:.3f}]"


TABLES: dict[str, Callable[[], str]] = {
    "alarms": alarms,
    "leakage-blood": leakage("blood.json.gz"),
    "leakage-shapes": leakage("shapes.json.gz"),
    "leakage-full": leakage("full.json.gz"),
    "paired": paired,
    "use-blood": use("blood.json.gz"),
    "use-shapes": use("shapes.json.gz"),
    "use-full": use("full.json.gz"),
    "counterfactuals": counterfactuals,
    "maps": maps,
    "regularizers": regularizers,
    "faithfulness": faithfulness,
    "refine": refine,
    "headroom": headroom,
    "codes": codes,
    "detect": detect,
}


def run() -> None:
    path = HERE / "version-0.1.md"
    if not path.exists():
        return

    def fill(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    text = path.read_text("utf-8")
    write_text(path, re.sub(r"<!-- table ([\w-]+) -->.*?<!-- end -->", fill, text, flags=re.DOTALL))
