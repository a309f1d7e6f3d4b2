"""Write the tables of evidence pages from the raw JSON in evidence/, between their markers.

    python scripts/tables.py [--check]

A table stands between `<!-- table NAME -->` and `<!-- end -->`. `--check` only says which are stale.
"""

import argparse
import itertools
import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pretraining.probe.table import markdown  # noqa: E402

EVIDENCE = ROOT / "evidence"


def read(name: str) -> Any:
    return json.loads((EVIDENCE / name).read_text("utf-8"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def spread(values: Sequence[float | None], digits: int) -> str:
    """Mean ± standard deviation over seeds."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    return f"{statistics.mean(known):.{digits}f} ± {statistics.stdev(known):.{digits}f}"


def ivq_defaults() -> str:
    names = {
        "default": "`ivq-cbm`",
        "calibrated-once": "temperature set once",
        "no-regularizer": "without IVQ",
        "as-printed": "as printed, τ = 1, random start",
        "released": "`ivq-cbm-released`",
    }
    runs = read("ivq-defaults/results.json")["runs"]
    rows = []
    for key, name in names.items():
        mine = [run for run in runs if run["name"] == key]
        rows.append(
            [
                name,
                spread([run["bacc"] for run in mine], 3),
                spread([run["cbacc"] for run in mine], 3),
                spread([run["cauc"] for run in mine], 3),
                ", ".join(str(len(run["chance"])) for run in mine),
                spread([run["ent"] for run in mine], 2),
                ", ".join(str(run["empty"]) for run in mine),
                spread([run["use"] for run in mine], 2),
                spread([run["rp"] for run in mine], 1),
                spread([run["re"] for run in mine], 1),
            ]
        )
    head = ["variant", "class bal. acc.", "concept bal. acc.", "concept AUC", "groups at chance (of 11)"]
    head += ["assignment entropy", "empty slots", "codes in use", "rank, published", "rank, effective"]
    return table(head, rows)


def foundation() -> str:
    demo, step, rank = (read(f"foundation/{name}.json") for name in ("demo", "step", "rank"))
    found, times = demo["found"], step["milliseconds"]
    base = times["1,000 images, no rank tracking"]
    speed = [row["speed_up"] for row in rank["rows"]]
    wrong = sum(count for row in rank["rows"] for count in row["mismatches"].values())
    rows = [
        ["demo, after installation", f"{found['seconds']:.0f} s, {found['memory_mb']:.0f} MB", "300 s, 3,072 MB"],
        ["demo, class balanced accuracy on test", f"{found['balanced_accuracy']:.3f}", "0.93"],
        ["demo, mean concept balanced accuracy on test", f"{found['concept_balanced_accuracy']:.3f}", "0.80"],
        ["demo, called again", f"{found['second_call_seconds']:.1f} s", "seconds"],
        ["rank against a loop of full SVDs", f"{min(speed):.1f} to {max(speed):.1f} times faster", "4 times"],
        ["ranks that differ from float64 SVD", f"{wrong}", "0"],
        ["rank tracking, share of a step", f"{step['tracking_share']:.2%}", "2 %"],
        [
            "a step with 100,000 images, against 1,000",
            f"{times['100,000 images, no rank tracking'] / base:.2f} times",
            "flat",
        ],
    ]
    return table(["what", "measured", "wanted"], rows)


def store() -> str:
    file = read("speed/store.json")
    found, promise = file["found"], file["promise"]
    rows = [
        [
            "building, images/s",
            f"{found['building_images_per_second']:.0f}, {found['building_share']:.0%} of the bare encoder's",
            f"{promise['building']:.0%}",
        ],
        *(
            [f"reading {words}, share of a plain copy", f"{found[key]:.0%}", f"{promise['reading']:.0%}"]
            for words, key in (("in order", "reading_in_order_share"), ("at random", "reading_at_random_share"))
        ),
        ["a plain copy from the page cache", f"{found['copy_gigabytes_per_second']:.1f} GB/s", "–"],
    ]
    return table(["what", "measured", "wanted"], rows)


def explain() -> str:
    file = read("speed/explain.json")
    times = [each["seconds"] for each in file["found"]]
    rows = [
        [
            f"{file['images']} images, pictures included, `{file['run']['encoder']}`",
            f"{file['median']:.1f} s ({min(times):.1f} to {max(times):.1f})",
            f"{file['wanted']:.0f} s",
        ]
    ]
    return table(["what", "measured", "wanted"], rows)


def gpu() -> str:
    file = read("speed/gpu.json")
    shares = {name: f"{row['share_of_matmul_rate']:.0%}" for name, row in file["variants"].items()}
    rows = [["published step, batch 256", f"{file['published']['images_per_second']:,.0f}", "–", "–"]]
    for name, row in file["variants"].items():
        words = name.replace("large batch", "batch 256").replace("small batch", "batch 32")
        rows.append([words, f"{row['images_per_second']:,.0f}", f"{row['ms_per_step']:.1f} ms", shares[name]])
    return table(["step", "images/s", "a step", "of the matmul rate"], rows)


def gpu_goals() -> str:
    goals = read("speed/gpu.json")["goals"]
    return table(
        ["what", "measured", "wanted"],
        [[name, f"{row['found']:.2f}", f"{row['wanted']:.2f}"] for name, row in goals.items()],
    )


def sparse_head() -> str:
    rows = []
    for row in read("sparse-head/cpu.json")["rows"]:
        fraction = f"λ = {row['lambda_fraction']} λ_max" if "lambda_fraction" in row else "path of 20 λ"
        rows.append(
            [
                f"{row['case'].split(',')[0]}, {fraction}",
                f"{row['nec']:.0f}",
                f"{row['seconds'] * 1000:.0f} ms",
                f"{row['saga_seconds'] * 1000:.0f} ms",
                f"{row['speed_up']:.1f} ×",
                f"{row['objective_minus_saga']:.1e}",
            ]
        )
    return table(["case", "concepts a class", "ours", "saga", "faster", "objective, ours − saga's"], rows)


def sparse_head_gpu() -> str:
    *ours, saga = read("sparse-head/gpu.json")["rows"]
    rows = [
        [
            row["case"].removeprefix("large, "),
            f"{row['path_seconds']:.1f} s for {row['path_length']} λ",
            f"{row['path_relative_gap']:.1e}",
            f"{row['cold_seconds']:.1f} s",
            f"{row['relative_gap']:.1e}",
            f"{saga['saga_seconds_per_epoch']:.0f} s",
        ]
        for row in ours
    ]
    head = ["features", "path to 30 concepts a class", "largest gap", "its last λ, cold", "gap", "saga, one epoch"]
    return table(head, rows)


def builtin_encoder() -> str:
    return str(markdown(EVIDENCE / "builtin-encoder"))


STAGES = {
    "index": "first start: every shard is read once",
    "open": "start: data are opened, with imports",
    "encode": "`encode`, tokens stored",
    "train": "`train`, one epoch from tokens, with tests",
    "predict": "`predict`, to Parquet",
    "audit": "`audit`",
}


def scale_growth() -> str:
    rows = {(row["stage"], row["images"]): row for row in read("scale/growth.json")["rows"]}
    sizes = sorted({images for _, images in rows})
    lines = []
    for stage, name in STAGES.items():
        mine = [rows[stage, images] for images in sizes if (stage, images) in rows]
        cells = [
            f"{rows[stage, images]['processor_seconds']:,.0f} s" if (stage, images) in rows else "–" for images in sizes
        ]
        slopes = [
            (two["processor_seconds"] - one["processor_seconds"]) / (two["images"] - one["images"]) * 1e6
            for one, two in itertools.pairwise(mine)
        ]
        memory = f"{max(row['memory_mb'] for row in mine):,.0f} MB"
        files = str(max(row["open_files"] for row in mine))
        lines.append([name, *cells, " → ".join(f"{slope:,.1f}" for slope in slopes) + " µs", memory, files])
    head = ["stage", *(f"{images:,} images" for images in sizes), "a further image", "most memory", "most open files"]
    return table(head, lines)


def scale_encode() -> str:
    """Encoding from shards beside the bare encoder."""
    found = read("scale/encode.json")["found"]
    (row,) = found["rows"]
    lines = []
    for k, name in enumerate(("the clock", "the processor")):
        bare = min(times[k] for rounds in row["bare_seconds"].values() for times in rounds)
        whole = min(times[k] for times in row["encode_seconds"])
        lines.append([name, f"{row['images'] / bare:,.1f}", f"{row['images'] / whole:,.1f}", f"{bare / whole:.1%}"])
    return table(["by", "bare encoder, images/s", "`encode` from shards, images/s", "share"], lines)


def scale_encode_gpu() -> str:
    """The same on a GPU by precision, and what the disk took meanwhile."""
    found = read("scale/encode-gpu.json")["found"]
    lines = []
    for row in found["rows"]:
        bare = min(seconds for rounds in row["bare_seconds"].values() for seconds, _ in rounds)
        whole = min(seconds for seconds, _ in row["encode_seconds"])
        written = row["images"] * 197 * 768 * 2 / whole / 1e6
        cells = [f"{row['images'] / seconds:,.0f}" for seconds in (bare, whole)]
        lines.append([row["precision"], *cells, f"{bare / whole:.0%}", f"{written:,.0f} MB/s"])
    head = ["precision", "bare encoder, images/s", "`encode` from shards, images/s", "share", "tokens written"]
    return table([*head, "the disk alone"], [[*line, f"{found['disk_mb_per_second']:,.0f} MB/s"] for line in lines])


def scale_decode_gpu() -> str:
    """Decoding alone on a machine of 16 cores."""
    rows = [
        [row["by"], str(row.get("threads", "–")), f"{row['images_per_second']:,.0f}"]
        for row in read("scale/encode-gpu.json")["found"]["decoding"]
    ]
    return table(["by", "threads", "images/s"], rows)


def scale_trainings() -> str:
    """How far a comparison came, and when it would have ended at that pace."""
    found = read("scale/trainings.json")
    lines, seconds, count = [], 0.0, 0
    for part in found["parts"]:
        seconds, count = seconds + part["seconds"], count + len(part["done"])
        share = part["share_of_work_so_far"]
        lines.append([f"{seconds:.0f} s", f"{count} of {found['of']}", f"{share:.0%}", f"{seconds / share:.0f} s"])
    return table(["after", "trainings done", "share of the work", "all at this pace"], lines)


def scale_engines() -> str:
    """Each engine with one and with two workers; what a further training takes, once each worker has had its first."""
    found = read("scale/engines.json")
    lines = []
    for engine in dict.fromkeys(row["engine"] for row in found["rows"]):
        rows = [row for row in found["rows"] if row["engine"] == engine]
        further = [statistics.mean(row["trainings"][row["workers"] :]) / row["workers"] for row in rows]
        whole = [row["seconds"] for row in rows]
        lines.append(
            [
                engine,
                *(f"{seconds:.1f} s" for seconds in whole),
                f"{whole[0] / whole[1]:.2f}",
                *(f"{seconds:.2f} s" for seconds in further),
                f"{further[0] / further[1]:.2f}",
                "yes" if all(row["same_bits"] for row in rows) else "no",
            ]
        )
    head = ["engine", "one worker", "two", "times as fast", "a further training, one worker", "two", "times as fast"]
    return table([*head, "the same bits"], lines)


def scale_faults() -> str:
    """A worker that is killed."""
    found = read("scale/faults.json")
    lines = [
        [
            row["engine"],
            f"{row['checkpoint_steps']} of {row['steps']}",
            f"{row['lost_seconds']:.2f} s",
            f"{row['next_checkpoint_steps']}, after {row['seconds_to_next_checkpoint']:.1f} s",
            f"{row['done']} of {row['of']}",
            "yes" if row["same_bits"] else "no",
        ]
        for row in found["rows"]
    ]
    head = ["engine", "last checkpoint, steps", "work since then, lost", "next checkpoint", "done", "the same bits"]
    return table(head, lines)


def scale_workers() -> str:
    """Prediction by several processes, beside the cost model."""
    lines = [
        [
            str(row["workers"]),
            f"{row['seconds']:.1f} s",
            f"{row['model_seconds']:.1f} s",
            f"{100 * (row['seconds'] / row['model_seconds'] - 1):+.0f} %",
            f"{row['images'] / row['seconds']:,.0f}",
        ]
        for row in read("scale/workers.json")["rows"]
    ]
    return table(["workers", "measured", "model", "difference", "images/s"], lines)


def reader_steps() -> str:
    """A training step on stored tokens, by method."""
    found = {name: min(times) for name, times in read("speed/reader.json")["milliseconds"].items()}
    rows = [[name, f"{best:.1f} ms", f"{best / found['explicd']:.2f}"] for name, best in found.items()]
    return table(["method", "a step", "× explicd"], rows)


def scale_decode() -> str:
    found = read("scale/decode.json")["found"]
    names = {
        "package": "as the package reads it, checks included",
        "pillow": "Pillow alone",
        "simplejpeg": "simplejpeg alone",
    }
    rows = [[name, f"{found[key]:.0f} µs", f"{1e6 / found[key]:,.0f}"] for key, name in names.items() if key in found]
    return table(["decoding 224 pixels, one core", "an image", "images/s"], rows)


def scale_memory() -> str:
    rows = []
    for row, there in zip(read("scale/memory.json")["rows"], read("scale/memory-gpu.json")["found"], strict=True):
        measured = [f"{there['gigabytes']:.1f} GB", f"{1000 * there['seconds_of_third_step']:.0f} ms"]
        saving = "yes" if row["checkpointing"] else "no"
        rows.append([row["way"], saving, f"{row['learning']:,}", f"{row['gigabytes']:.1f} GB", *measured])
    head = ["what learns", "checkpointing", "numbers that learn", "counted", "measured on an H200", "a step there"]
    return table(head, rows)


def scale_model() -> str:
    """Hours and bytes for ViT-B/16 at 224 pixels, from measured costs; docs/scale.md says what is assumed."""
    costs = scale_costs()
    rows = []
    for images, label in ((10_000_000, "10 million"), (1_000_000_000, "1 billion")):
        for gpus in (8, 64):
            nodes = gpus // 8
            forward = images / (costs["forward"] * gpus)
            tokens = images * costs["token_bytes"]
            writing = tokens / (costs["disk_bytes_per_second"] * nodes)
            rows.append(
                [
                    label,
                    str(gpus),
                    _hours(forward),
                    f"{costs['forward'] * gpus * costs['decode_seconds']:,.0f}",
                    f"{costs['forward'] * gpus * costs['jpeg_bytes'] / 1e9:,.1f} GB/s",
                    f"{tokens / 1e12:,.0f} TB",
                    _hours(writing),
                    _hours(images / (costs["train"] * gpus)),
                    f"{images * costs['label_bytes'] / 1e9:,.1f} GB",
                ]
            )
    head = ["images", "GPUs", "encode or predict", "cores that decode", "JPEGs read", "tokens, all", "writing them"]
    return table([*head, "an epoch, all layers", "labels in memory, a process"], rows)


def scale_costs() -> dict[str, Any]:
    growth = {(row["stage"], row["images"]): row for row in read("scale/growth.json")["rows"]}
    small, large = growth["open", 10_000], growth["open", 1_000_000]
    steps = {name: row["images_per_second"] for name, row in read("speed/gpu.json")["variants"].items()}
    return {
        "train": steps["ours, compiled, large batch"],
        # The gradient costs twice the forward pass: the step is measured, the third is assumed.
        "forward": 3 * steps["bare, compiled, large batch"],
        "decode_seconds": read("scale/decode.json")["found"]["package"] / 1e6,
        "jpeg_bytes": read("scale/decode.json")["found"]["bytes"],
        "token_bytes": 197 * 768 * 2,
        "disk_bytes_per_second": 3e9,  # assumed, of a node
        "label_bytes": (large["memory_mb"] - small["memory_mb"]) * 2**20 / (large["images"] - small["images"]),
    }


def _hours(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


TABLES: dict[str, Callable[[], str]] = {
    "scale-growth": scale_growth,
    "scale-encode": scale_encode,
    "scale-encode-gpu": scale_encode_gpu,
    "scale-decode-gpu": scale_decode_gpu,
    "scale-trainings": scale_trainings,
    "scale-engines": scale_engines,
    "scale-faults": scale_faults,
    "scale-workers": scale_workers,
    "scale-decode": scale_decode,
    "scale-memory": scale_memory,
    "scale-model": scale_model,
    "ivq-defaults": ivq_defaults,
    "foundation": foundation,
    "builtin-encoder": builtin_encoder,
    "store": store,
    "reader": reader_steps,
    "explain": explain,
    "gpu": gpu,
    "gpu-goals": gpu_goals,
    "sparse-head": sparse_head,
    "sparse-head-gpu": sparse_head_gpu,
}
PAGES = (
    "evidence/ivq-defaults/README.md",
    "evidence/foundation/README.md",
    "evidence/builtin-encoder/README.md",
    "evidence/speed/README.md",
    "evidence/sparse-head/README.md",
    "evidence/scale/README.md",
    "docs/scale.md",
    "src/conceptlens/encoders/weights/CARD.md",
)


def fill(text: str) -> str:
    """The page with its tables made anew."""

    def make(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table ([\w-]+) -->.*?<!-- end -->", make, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = [page for page in PAGES if (ROOT / page).read_text("utf-8") != fill((ROOT / page).read_text("utf-8"))]
    for page in stale:
        print(f"{page}: {'not current' if args.check else 'written'}")
        if not args.check:
            (ROOT / page).write_text(fill((ROOT / page).read_text("utf-8")), "utf-8")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
