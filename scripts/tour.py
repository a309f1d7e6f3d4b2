"""The demo as one small file for the documentation: `docs/examples/demo-tour.html`.

    python scripts/tour.py                  # of runs/demo, which `make demo` trains
    python scripts/tour.py runs/mine --out mine.html

It is what `conceptlens share runs/demo FILE --n 40 --max-mb 2` writes. Needs the extra `page`.
"""

import argparse
from pathlib import Path

from conceptlens.api import share
from conceptlens.core.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
IMAGES, MEGABYTES = 40, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", default=ROOT / "runs" / "demo")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "examples" / "demo-tour.html")
    options = parser.parse_args()
    try:
        print(share(options.run, options.out, n=IMAGES, max_mb=MEGABYTES).text())
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
