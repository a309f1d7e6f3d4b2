"""The graphs of the paper's Figures 1, 3, 6, 10, 12 and 13 for the authors' ResNet-50, and of a ViT on blood cells.

    export GIG_WEIGHTS=work/teachers/resnet50.safetensors                # pretraining/teachers/convert.py
    python evidence/gig/graphs.py photographs --samples DIR --to PHOTOS  # 118 dogs and 182 others of 1,000 photographs
    conceptlens decompose evidence/gig/graphs.py:build PHOTOS --out runs/graphs --rule gradient --per-image 6 \\
        --layers layer2.3 --layers layer3.5 --layers layer4.1 --layers layer4.2 --validate-on 2 --examples 2 \\
        --image n02106166_Border_collie.JPEG --output "Border collie" --output "sea slug" \\
        --noise 70 --attack "sea slug"
    conceptlens decompose runs/demo --data blood-cells --out runs/graphs-vit --rule gradient
    python evidence/gig/graphs.py pictures --runs runs/graphs runs/graphs-vit --browser chromium

The photograph, the noise and the attack's class are those of the paper (its own photograph is not at hand).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops
from torch import nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
DOGS = ("n02085620", "n02113978")  # the first and the last
KINDS = ("graph", "graph-image", "graph-data", "graph-noise", "graph-attack")
WIDTH, QUALITY = 1400, 72


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
    """graph*.svg of runs as WebP, drawn by a browser."""
    for run in runs:
        for kind in KINDS:
            if not (run / f"{kind}.svg").exists():
                continue
            with tempfile.TemporaryDirectory() as place:
                shot = Path(place) / "shot.png"
                words = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1.5"]
                size = f"--window-size={WIDTH},{WIDTH}"
                target = (run / f"{kind}.svg").resolve().as_uri()
                subprocess.run([browser, *words, size, f"--screenshot={shot}", target], check=True, capture_output=True)
                drawn = Image.open(shot).convert("RGB")
                box = ImageChops.difference(drawn, Image.new("RGB", drawn.size, drawn.getpixel((0, 0)))).getbbox()
                drawn.crop(box).save(to / f"{run.name}-{kind}.webp", "WEBP", quality=QUALITY, method=6)
                print(to / f"{run.name}-{kind}.webp")


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


if __name__ == "__main__":
    main()
