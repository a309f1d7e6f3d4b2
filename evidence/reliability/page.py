"""Fill the tables of README.md and server.md from the raw rows beside them: `python page.py`.

`kills.jsonl`, `parts.jsonl`: a line for each part of `python -m assault --append`; `server.json`: what
`assault/server.py --full` wrote; `gpu.jsonl`: a line for each test or attempt on a GPU. `earlier/` holds those of
earlier versions.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import table  # a neighbor

HERE = Path(__file__).resolve().parent
NAMES = {
    "folders": "run folders, by seven commands",
    "page": "the page over a damaged folder and a whole one (requests)",
    "kinds": "studies, decompositions, comparisons: a command and requests to the page each",
    "readers": "shards, detections, annotations, graphs, checkpoints of generators",
    "recipes": "recipes and concept files",
    "weights": "weights of an encoder",
    "full-disk": "training with a limit on the size of files, then without it",
    "full-results": "measures with such a limit",
    "real-disk": "training on a file system that is full, then larger",
    "read-only": "commands, the page and trainings on a file system that is or becomes read-only",
}
MUTATED = ("folders", "images", "tables", "recipes", "weights", "readers")
Rows = list[dict[str, Any]]


def rows_of(name: str) -> Rows:
    file = HERE / name
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def kills() -> str:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for batch in rows_of("kills.jsonl"):
        for name, about in batch["more"].items() if batch["name"] != "serve" else ():
            attempts = [row for row in about["rows"] if row["kills"]]
            equal = [row for row in attempts if row["code"] == 0 and not row["differ"]]
            new = (len(attempts), about["kills"], len(equal), sum(len(row["kills"]) for row in equal))
            counts[name] = [a + b for a, b in zip(counts[name], new, strict=True)]
    rows: list[list[object]] = [[f"`{name}`", *numbers] for name, numbers in counts.items()]
    rows.append(["all", *(sum(numbers) for numbers in zip(*counts.values(), strict=True))])
    return table(["killed", "runs that were killed", "kills", "of these runs, equal in the end", "kills in them"], rows)


def serve() -> str:
    rows: list[list[object]] = []
    for batch in rows_of("kills.jsonl"):
        if batch["name"] != "serve":
            continue
        last = batch["more"]["rows"][-1]
        done = last["states of jobs"].count("done")
        lost = sum(found["kind"] == "lost" for found in batch["findings"])
        rows.append([len(batch["more"]["rows"]) - 1, last["corrections"], last["answers"], last["jobs"], done, lost])
    return table(["kills", "corrections confirmed", "answers of a rater", "jobs taken", "jobs done", "lost"], rows)


def parts() -> str:
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for part in rows_of("parts.jsonl"):
        kinds = [found["kind"] for found in part["findings"]]
        new = [part["attempts"], part["accepted"], part["refused"], *map(kinds.count, ("traceback", "hang"))]
        new.append(sum(kind in ("changed", "lost", "server error") for kind in kinds))
        counts[part["name"]] = [a + b for a, b in zip(counts[part["name"]], new, strict=True)]
    rows: list[list[object]] = [[NAMES.get(name, name), *numbers] for name, numbers in counts.items()]
    mutated = [sum(numbers) for numbers in zip(*(counts[name] for name in MUTATED if name in counts), strict=True)]
    rows.append(["**mutated inputs, all**", *mutated])
    header = ["part", "attempts", "accepted", "refused with a reason", "tracebacks", "hangs", "changed, lost, errors"]
    return table(header, rows)


def gpu() -> str:
    rows = rows_of("gpu.jsonl")
    if not rows:
        return "Not run."
    machine = next((row for row in rows if row["kind"] == "machine"), {})
    lines = [", ".join(f"{name} {value}" for name, value in machine.items() if name != "kind")]
    tests = [row for row in rows if row["kind"] == "test"]
    outcomes = [row["outcome"] for row in tests]
    counted = ", ".join(f"{outcomes.count(word)} {word}" for word in ("passed", "failed", "skipped"))
    lines.append(f"Tests: {counted}.")
    lines += [f"Failed: `{row['test']}`" for row in tests if row["outcome"] == "failed"]
    measured = [row for row in rows if row["kind"] == "precision" and "error" not in row]
    for what, said in (("bf16", "bf16 against fp32"), ("device", "fp32 against the CPU")):
        ratios = {
            row["method"]: max(
                row[key][0] / row[key][1] for key in (f"logits {what}", f"concept_logits {what}") if row[key][1]
            )
            for row in measured
        }
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            lines.append(
                f"{said}, {len(ratios)} methods: largest difference of a logit, as a share of the largest: median "
                f"{sorted(ratios.values())[len(ratios) // 2]:.2%}, worst {ratios[worst]:.2%} (`{worst}`)."
            )
    lines += [
        f"Not measured: `{row['method']}`: {row['error']}"
        for row in rows
        if row["kind"] == "precision" and "error" in row
    ]
    return "\n\n".join(lines)


def gpu_kills() -> str:
    """By what runs on a GPU differ from the first of their kind, which nobody stopped."""
    rows = [row for row in rows_of("gpu.jsonl") if row["kind"] == "kill" and row["number"]]
    ended = [row for row in rows if row["code"] == 0 and "error" not in row]
    body: list[list[object]] = []
    for command in dict.fromkeys(row["command"] for row in rows):
        for killed in (False, True):
            ours = [row for row in ended if row["command"] == command and bool(row["kills"]) == killed]
            keys = (
                ("weights", "loss, relative", "largest difference of scores") if command == "train" else ("difference",)
            )
            most = [f"{max(row[key] for row in ours):.2g}" if ours else "" for key in keys]
            kills = sum(len(row["kills"]) for row in ours)
            same = sum(row.get("same predictions", row["difference"] < 1e-3) for row in ours)
            body.append([f"`{command}`", len(ours), kills or "never stopped", *most, *[""] * (3 - len(most)), same])
    header = ["command", "runs beside the first", "kills", "largest difference of a stored number (`train`: weight)"]
    header += ["of an epoch's loss, relative", "of a test logit", "with the same answers"]
    failed = [row for row in rows if "error" in row]
    said = "; ".join(f"`{row['command']}`: {row['error'][-200:]}" for row in failed) or "none"
    return table(header, body) + f"\n\nAttempts that did not end or could not be compared: {said}."


def requests() -> str:
    found = json.loads((HERE / "server.json").read_text("utf-8"))
    rows: list[list[object]] = []
    for name, what in (("requests", "the page"), ("service", "`serve-model`")):
        if part := found.get(name):
            size = f"{part['megabytes'][1]:,.0f} → {part['megabytes'][-1]:,.0f}"
            grown = f"{part['growth']:+.1%}"
            rows.append([what, f"{part['requests']:,}", part["operations"], part["server_errors"], size, grown])
    header = ["server", "drawn requests", "operations", "server errors", "MB after a fifth → at the end", "growth"]
    return table(header, rows)


def slow() -> str:
    found = json.loads((HERE / "server.json").read_text("utf-8"))
    rows: list[list[object]] = []
    for name, what in (("slow", "the page"), ("service slow", "`serve-model`")):
        if part := found.get(name):
            waits = (part[key] for key in ("longest_before_s", "others_median_s", "others_longest_s"))
            rows.append([what, f"{part['connections']:,}", f"{part['others']:,}", *(f"{wait:.2f} s" for wait in waits)])
    header = ["server", "slow connections", "requests of others meanwhile", "longest before", "median", "longest"]
    return table(header, rows)


def others() -> str:
    found = json.loads((HERE / "server.json").read_text("utf-8"))
    schema, views = found["schema"], found["views"]
    counted = "; ".join(line.strip() for line in schema["summary"] if "generated" in line)
    return (
        f"schemathesis: {counted}; {len(schema['faults'])} faults. Chromium: {views['pages']} pages, hostile names on "
        f"{len(views['with_hostile_names'])} kinds of them; {len(views['faults'])} faults."
    )


def main() -> None:
    fill("README.md", kills, serve, parts, gpu, gpu_kills)
    fill("server.md", requests, slow, others)


def fill(page_name: str, *makers: Callable[[], str]) -> None:
    page = HERE / page_name
    text = page.read_text("utf-8")
    for name, make in ((make.__name__, make) for make in makers):
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, _, rest = text.partition(begin)
        _, marked, after = rest.partition(end)
        assert marked, name
        text = before + begin + make() + end + after
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
