"""Makes this folder's numbers, piece by piece: what is there is not made again, and each call stops after --seconds.

    python evidence/trust/make.py alarms                         false alarms and power on made-up scores
    python evidence/trust/make.py methods RUNS blood.json.gz        leakage and interventions of finished runs
    python evidence/trust/make.py full RUNS                      the same of fine-tuned runs, from their predictions
    python evidence/trust/make.py shapes WORK [--seeds 3]        small trainings on drawn creatures, then the same
    python evidence/trust/make.py regularizers WORK [--seeds 5]  IVQ, plain L2 or nothing while the last block learns
    python evidence/trust/make.py codes WORK RUN …               dormant codes, with planted invisible concepts
    python evidence/trust/make.py refine WORK [--seeds 5]        Table 9
    python evidence/trust/make.py headroom WORK [--seeds 3]      corrections where there is something to gain
    python evidence/trust/make.py prepare WORK --ham DIR --ham-split FILE --idrid DIR --cub DIR --cub-sizes FILE
    python evidence/trust/make.py maps WORK ham                  or shapes, idrid, cub; `maps RUNS blood`: finished runs
    python evidence/trust/make.py page                           figures, and tables of the page

Blood cells: `conceptlens compare evidence/blood-cells-tokens/compare.yaml --out DIR` makes the RUNS of `methods`,
`conceptlens compare evidence/ivq-rank/compare.yaml --out DIR` those of `full`.
"""

import argparse
from pathlib import Path

import alarms
import codes
import figures
import headroom
import maps
import prepare
import refinement
import torch
import train

import methods
import pages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pieces = "alarms methods full shapes regularizers codes refine headroom prepare maps page"
    parser.add_argument("what", choices=pieces.split())
    parser.add_argument("where", nargs="?", type=Path)
    parser.add_argument("more", nargs="*")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so many")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    for name in ("ham", "ham-split", "idrid", "cub", "cub-sizes"):
        parser.add_argument(f"--{name}", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    where = args.where.absolute() if args.where else None
    if args.what == "alarms":
        alarms.run(args.seconds)
        return
    if args.what == "page":
        figures.run()
        pages.run()
        return
    if where is None:
        parser.error(f"{args.what}: a folder is missing")
    if args.what == "methods":
        methods.run(where, args.more[0], args.seconds)
    elif args.what == "full":
        methods.run(where, "full.json.gz", args.seconds, every=3, only="blood-cells-ivq-cbm")
    elif args.what == "shapes":
        train.run(where, args.seeds, args.seconds, tuned=False)
        methods.run(where / "frozen", "shapes.json.gz", args.seconds)
    elif args.what == "regularizers":
        train.run(where, args.seeds, args.seconds, tuned=True)
        maps.tuned(where / "tuned", args.seconds)
    elif args.what == "codes":
        codes.run(where, args.seeds, args.seconds, [Path(each) for each in args.more])
    elif args.what == "refine":
        refinement.run(where, args.seeds)
    elif args.what == "headroom":
        headroom.run(where, args.seeds, args.seconds)
    elif args.what == "prepare":
        if args.ham:
            prepare.ham(args.ham, args.ham_split, where)
        if args.idrid:
            prepare.idrid(args.idrid, where)
        if args.cub:
            prepare.cub(args.cub, args.cub_sizes, where)
    elif args.more[0] == "blood":
        maps.finished(where, args.seconds)
    else:
        maps.run(args.more[0], where, args.seeds, args.seconds)


if __name__ == "__main__":
    main()
