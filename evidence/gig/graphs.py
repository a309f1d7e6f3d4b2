"""The graphs of the paper's Figures 1, 3, 6, 10, 12 and 13 for the authors' ResNet-50, and of a trained run.

    export GIG_WEIGHTS=work/teachers/resnet50.safetensors                # pretraining/teachers/convert.py
    python evidence/gig/graphs.py photographs --samples DIR --to PHOTOS  # 118 dogs and 222 others of 1,000 photographs
    conceptlens decompose evidence/gig/graphs.py:build PHOTOS --out runs/resnet50 --rule gradient --per-image 6 \\
        --layers layer2.3 --layers layer3.5 --layers layer4.1 --layers layer4.2 --validate-on 2 --examples 2 \\
        --image n02106166_Border_collie.JPEG --output "Border collie" --output "sea slug" \\
        --noise 70 --attack "sea slug"
    conceptlens train blood-cells/ivq-cbm --training.epochs 6 --out runs/cells
    conceptlens decompose runs/cells --data blood-cells --n 400 --per-image 8 --rule gradient --validate-on 20 \\
        --layers encoder.trunk.2 --layers encoder.trunk.4 --layers encoder.trunk.5 --examples 3 \\
        --output "granule colour: red" --output "granularity: yes" --out runs/named
    python evidence/gig/graphs.py pictures --runs runs/resnet50 runs/named --browser chromium

The photograph, the noise and the attack's class are those of the paper (its own photograph is not at hand).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from torch import nn

from conceptlens.core.files import read_json, write_json

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
DOGS = ("n02085620", "n02113978")  # the first and the last
PAGES = ("report", "graph-image", "graph-noise", "graph-attack")
WIDTH, QUALITY = 1400, 60


def build() -> nn.Module:
    """The network as `conceptlens decompose FILE:build` calls it."""
    from subjects import SIDE, resnet50

    lines = (HERE.parents[1] / "pretraining" / "imagenet_classes.tsv").read_text("utf-8").splitlines()
    model = resnet50(Path(os.environ["GIG_WEIGHTS"])).eval()
    names = [line.split("\t")[1] for line in lines if line and not line.startswith("#")]
    seen: dict[str, int] = {}
    for place, name in enumerate(names):  # two kinds of crane are two classes
        seen[name] = seen.get(name, 0) + 1
        names[place] = f"{name} {seen[name]}" if seen[name] > 1 else name
    model.image_size, model.classes = SIDE, names  # type: ignore[assignment]
    return model


def photographs(samples: Path, to: Path) -> None:
    """All dogs, and others evenly spread, as links."""
    files = sorted(samples.glob("n*_*.JPEG"))
    dogs = [file for file in files if DOGS[0] <= file.name.split("_")[0] <= DOGS[1]]
    rest = [file for file in files if file not in dogs]
    slug = next(file for file in rest if file.name.startswith("n01950731"))
    others = rest[:: max(1, len(rest) // 181)]
    to.mkdir(parents=True, exist_ok=True)
    for file in {*dogs, *others, slug}:
        shutil.copy(file, to / file.name)
    print(f"{len(dogs)} dogs and {len({*others, slug})} others under {to}")


def pictures(runs: list[Path], browser: str, to: Path) -> None:
    """The graph of each page of runs as WebP, drawn by a browser."""
    for run in runs:
        for name in PAGES:  # the report shows the main graph
            page = run / f"{name}.html"
            if not page.exists():
                continue
            text = page.read_text("utf-8")
            drawing = re.search(r"<svg\b.*?</svg>", text, re.DOTALL)
            if drawing is None:
                continue
            style = "".join(re.findall(r"<style\b.*?</style>", text, re.DOTALL))
            with tempfile.TemporaryDirectory() as place:
                alone, shot = Path(place) / "graph.html", Path(place) / "shot.png"
                body = f"<!doctype html><meta charset=utf-8>{style}<body style='margin:0;max-width:none'>{drawing[0]}"
                alone.write_text(body, "utf-8")
                words = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1"]
                size = f"--window-size={WIDTH},{WIDTH}"
                target = alone.as_uri()
                subprocess.run([browser, *words, size, f"--screenshot={shot}", target], check=True, capture_output=True)
                drawn = Image.open(shot).convert("RGB")
                ground = Image.new("RGB", drawn.size, drawn.getpixel((drawn.width - 1, drawn.height - 1)))
                box = ImageChops.difference(drawn, ground).getbbox()
                drawn.crop(box).save(to / f"{run.name}-{name}.webp", "WEBP", quality=QUALITY, method=6)
                print(to / f"{run.name}-{name}.webp")


def unexplained(graph: dict[str, Any], output: str, layer: str) -> float | None:
    """Share of the unexplained part in what a layer's shown concepts and it add to an output, both without sign."""
    edges = [edge for edge in graph["edges"] if edge["target"] == f"output/{output}"]
    parts = {e["source"]: abs(e["value"]) for e in edges if e["source"].startswith(f"{layer}/")}
    return round(parts.get(f"{layer}/error", 0.0) / sum(parts.values()), 4) if parts else None


def rows_of(runs: list[Path]) -> list[dict[str, Any]]:
    """What the graphs of each run say: the unexplained share by layer, and which concepts stay when disturbed."""
    made: list[dict[str, Any]] = []
    for run in runs:
        if (run / "graph.json").exists():
            main_graph = read_json(run / "graph.json")
            outputs = " and ".join(main_graph["outputs"])
            made += [
                {
                    "run": run.name, "graph": "main", "layer": row["layer"], "output": outputs,
                    "concepts": row["concepts"], "error_share": round(row["error_share"], 4),
                    "completeness_worst": round(main_graph["completeness"]["worst"], 5),
                    "unexplained_of_shown": {
                        name: unexplained(main_graph, name, row["layer"]) for name in main_graph["outputs"]
                    },
                }
                for row in main_graph["rows"]
            ]  # fmt: skip
        if (run / "validation.json").exists():
            for each in read_json(run / "validation.json")["classes"]:
                gig = next(order for order in each["orders"] if order["order"] == "gig")
                found = {"difference": round(gig["difference"], 3), "over_random": round(gig["over_random"], 3)}
                made.append(
                    {"run": run.name, "graph": "validation", "layer": each["layer"], "images": each["images"], **found}
                )
        for kind in ("image", "noise", "attack"):
            file = run / f"graph-{kind}.json"
            if not file.exists():
                continue
            graph = read_json(file)
            before = run / f"graph-{kind}-before.json"
            clean = read_json(before) if before.exists() else graph
            concepts = [
                {(node["layer"], node["concept"]) for node in each["nodes"] if node["kind"] == "concept"}
                for each in (clean, graph)
            ]
            for row in graph["rows"]:
                layer = row["layer"]
                mine = [{key for key in some if key[0] == layer} for some in concepts]
                made.append(
                    {
                        "run": run.name, "graph": kind, "layer": layer, "output": graph["outputs"][-1],
                        "concepts": row["concepts"], "before": len(mine[0]), "stay": len(mine[0] & mine[1]),
                        "error_share": round(row["error_share"], 4),
                        "unexplained_of_shown": unexplained(graph, graph["outputs"][-1], layer),
                    }
                )  # fmt: skip
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("photographs", "pictures"))
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--to", type=Path, default=HERE)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--browser", default="chromium")
    given = parser.parse_args()
    if given.part == "photographs":
        photographs(given.samples, given.to)
    else:
        pictures(given.runs, given.browser, given.to)
        write_json(given.to / "graphs.json", {"rows": rows_of(given.runs)})


if __name__ == "__main__":
    main()
