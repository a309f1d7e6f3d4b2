"""CUB-200-2011 as the tables that the recipes `cub/…` expect: `conceptlens data prepare cub CUB_200_2011 --out .`

    python evidence/pf-cbm/prepare.py --cub CUB_200_2011 --out cub [--sizes FILE]

`--sizes`: a table image_id, width, height of the original images, in whose pixels boxes and points are given, where the
folder holds smaller copies.
"""

import argparse
from pathlib import Path

from conceptlens.workflows.prepare.cub import cub


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cub", "out", "sizes"):
        parser.add_argument(f"--{name}", type=Path, required=name != "sizes")
    given = parser.parse_args()
    print(f"{given.out}: {cub(given.cub, given.out, sizes=given.sizes)}")


if __name__ == "__main__":
    main()
