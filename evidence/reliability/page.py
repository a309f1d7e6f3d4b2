"""Fill the tables of README.md from the raw rows beside it: `python page.py`.

`kills.jsonl`, `serve.jsonl`: a line for each batch of `assault/kills.py`; `parts.jsonl`: a line for each part of
`python -m assault`; `files.json`: those of an earlier version; `gpu.jsonl`: a line for each test or attempt on a
GPU.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAMES = {
    "folders": "run folders, by six commands",
    "page": "the page over a damaged folder and a whole one (requests)",
    "readers": "shards, detections, annotations, graphs, checkpoints of generators",
    "recipes": "recipes and concept files",
    "weights": "weights of an encoder",
    "full-disk": "training with a limit on the size of files, then without it",
    "full-results": "measures with such a limit",
    "real-disk": "training on a file system that is full, then larger",
}
MUTATED = ("folders", "images", "tables", "recipes", "weights", "readers")
Rows = list[dict[str, Any]]


def rows_of(name: str) -> Rows:
    file = HERE / name
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def table(header: list[str], rows: list[list[object]]) -> str:
    lines: list[list[object]] = [[*header], ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def kills() -> str:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for batch in rows_of("kills.jsonl"):
        for name, about in batch["more"].items():
            attempts = [row for row in about["rows"] if row["kills"]]
            equal = [row for row in attempts if row["code"] == 0 and not row["differ"]]
            new = (len(attempts), about["kills"], len(equal), sum(len(row["kills"]) for row in equal))
            counts[name] = [a + b for a, b in zip(counts[name], new, strict=True)]
    rows: list[list[object]] = [[f"`{name}`", *numbers] for name, numbers in counts.items()]
    rows.append(["all", *(sum(numbers) for numbers in zip(*counts.values(), strict=True))])
    return table(["killed", "runs that were killed", "kills", "of these runs, equal in the end", "kills in them"], rows)


def serve() -> str:
    rows: list[list[object]] = []
    for batch in rows_of("serve.jsonl"):
        last = batch["more"]["rows"][-1]
        done = last["states of jobs"].count("done")
        lost = sum(found["kind"] == "lost" for found in batch["findings"])
        rows.append([len(batch["more"]["rows"]) - 1, last["corrections"], last["answers"], last["jobs"], done, lost])
    return table(["kills", "corrections confirmed", "answers of a rater", "jobs taken", "jobs done", "lost"], rows)


def parts() -> str:
    earlier = [part for run in json.loads((HERE / "files.json").read_text("utf-8")) for part in run["parts"]]
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for part in [*earlier, *rows_of("parts.jsonl")]:
        if not part["name"].startswith(("kills", "serve")):
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
    attempts = [row for row in rows if row["kind"] == "kill"]
    body: list[list[object]] = [
        [
            " and ".join(f"{kill['signal']} after {kill['after']} s" for kill in row["kills"]) or "never",
            *(f"{row[key]:.2g}" if key in row else row.get("error", "failed") for key in ("weights", "loss, relative")),
            f"{row['largest difference of scores']:.2g}" if "scores" in row else "",
            "yes" if row.get("same predictions") else "no",
        ]
        for row in attempts
    ]
    if body:
        header = ["killed", "largest difference of a weight", "of an epoch's loss, relative", "of a test logit"]
        lines.append(table([*header, "same predictions"], body))
    return "\n\n".join(lines)


def main() -> None:
    page = HERE / "README.md"
    text = page.read_text("utf-8")
    for name, make in (("kills", kills), ("serve", serve), ("parts", parts), ("gpu", gpu)):
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, _, rest = text.partition(begin)
        _, marked, after = rest.partition(end)
        assert marked, name
        text = before + begin + make() + end + after
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
