"""Pictures of the page for the documentation: every view of one run, light and dark, a desktop's and a phone's width.

    python scripts/screenshots.py runs/*         # starts `conceptlens serve`, writes docs/pictures/*.webp
    python scripts/screenshots.py runs/demo --address http://127.0.0.1:8642      # of a server that runs already

Needs the extra `dev` (playwright) and Chromium. Nothing is downloaded.
"""

import argparse
import io
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.app.browser import CHROMIUM, FLAGS, serve  # noqa: E402

LIMIT = 200_000  # bytes of a picture
DESKTOP, PHONE = (1280, 860), (390, 844)


def plan(runs: list[str], wrong: str, edit: str) -> list[tuple[str, str, tuple[int, int], str]]:
    """Name, address, size and colours of each picture."""
    run = runs[0]
    return [
        ("page-runs", f"#/runs?compare={','.join(runs)}", DESKTOP, "light"),
        ("page-image", f"#/image?run={run}&image={wrong}&show=wrong&map=gradcam", DESKTOP, "light"),
        ("page-index", f"#/image?run={run}&image={wrong}&show=wrong&map=index&patch=90", DESKTOP, "dark"),
        ("page-what-if", f"#/what-if?run={run}&image={wrong}&show=wrong&edits={quote(edit)}", DESKTOP, "light"),
        ("page-training", f"#/training?run={run}", DESKTOP, "light"),
        ("page-concepts", f"#/concepts?run={run}&sort=influence", DESKTOP, "light"),
        ("page-codebook", f"#/concepts?run={run}&what=codebook&map=3d&sort=confidence", DESKTOP, "dark"),
        ("page-phone", f"#/what-if?run={run}&image={wrong}&show=wrong&edits={quote(edit)}", PHONE, "dark"),
    ]


def one_correction(page: Any, base: str, run: str) -> tuple[str, str]:
    """An image that the run gets wrong and the one true answer that puts it right; else a change that flips a class."""
    api = f"{base}/api/v1/runs/{run}"
    fallback = ("test/0", "")
    for show in ("wrong", "uncertain"):
        answer = page.request.get(f"{api}/images?show={show}&size=12")
        for item in answer.json().get("items", []) if answer.ok else []:
            image = f"{item['split']}/{item['row']}"
            seen = page.request.get(f"{api}/images/{image}/prediction?gradcam=none").json()
            for edit in seen["truth_edits"] if show == "wrong" else []:
                told = page.request.post(f"{api}/intervene", data={"state": seen["state"], "edits": [edit]}).json()
                if told["after"]["said"] == item["truth"]:
                    return image, edit
            flip = page.request.post(f"{api}/flip", data={"state": seen["state"], "edits": []}).json()
            if not fallback[1] and len(flip.get("edits") or []) == 1:
                fallback = (image, flip["edits"][0])
    return fallback


def shoot(browser: Any, base: str, address: str, size: tuple[int, int], scheme: str) -> Image.Image:
    """One view, whole, as far as two screens go."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5
    )
    page = context.new_page()
    page.goto(f"{base}/{address}")
    page.wait_for_selector("main .card")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1200)
    tall = min(page.evaluate("document.documentElement.scrollHeight"), 2 * height)
    picture = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": tall})
    context.close()
    return Image.open(io.BytesIO(picture)).convert("RGB")


def write(picture: Image.Image, file: Path) -> None:
    """As WebP, as good as fits."""
    for quality in (85, 75, 65, 50, 35):
        picture.save(file, "WEBP", quality=quality, method=6)
        if file.stat().st_size <= LIMIT:
            return
    raise SystemExit(f"{file} is larger than {LIMIT} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "runs", type=Path, nargs="+", help="finished runs; the first is shown, others are compared with it"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--address", help="of a server that runs already and shows the run")
    options = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("Chromium is not installed; the pictures were not made.")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.address:
        take(options.address.rstrip("/"), [run.name for run in options.runs], options.out)
        return
    with serve(*options.runs) as base:
        take(base, [run.name for run in options.runs], options.out)


def take(base: str, runs: list[str], out: Path) -> None:
    """All pictures."""
    run = runs[0]
    with sync_playwright() as library:
        browser = library.chromium.launch(executable_path=shutil.which("chromium") or CHROMIUM, args=FLAGS)
        image, edit = one_correction(browser.new_page(), base, run)
        for name, address, size, scheme in plan(runs, image, edit):
            write(shoot(browser, base, address, size, scheme), out / f"{name}.webp")
            print(out / f"{name}.webp", (out / f"{name}.webp").stat().st_size)
        browser.close()


if __name__ == "__main__":
    main()
