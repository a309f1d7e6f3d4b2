"""Pack the training images, without copies of evaluation images and without the classes kept unseen.

    python -m pretraining.images.pack --tiny DIR --imagenette DIR --samples DIR --blood DIR \
        --evaluation DIR [DIR …] --out DIR

Evaluation images are Imagenette's val/, Tiny-ImageNet's val/ and its images of the unseen classes, the val and test
tables of the blood cells, and all JPEGs under the folders given by --evaluation. `manifest.json` counts what went in
and what did not; `dropped.json` names every image dropped, with the evaluation image it resembles.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_json, write_json
from pretraining.command import command
from pretraining.images.collect import (
    Listing,
    list_blood,
    list_blood_evaluation,
    list_evaluation,
    list_imagenette,
    list_samples,
    list_tiny,
)
from pretraining.images.duplicates import BROAD, DETAIL, FINE, find_copies, fingerprint_images
from pretraining.images.shards import INDEX
from pretraining.images.unseen import read_unseen
from pretraining.images.writing import Form, in_packing_order, write_shards

MIB = 2**20
# Quality by measurement: the lowest at which the mean peak signal-to-noise ratio is 34 dB or more.
FORMS = {
    "tiny": Form(side=64, columns=16, quality=80),
    "imagenette": Form(side=144, columns=8, quality=80),
    "samples": Form(side=144, columns=8, quality=85),
    "blood": Form(side=128, columns=8, quality=80),
}


def drop_copies(
    listings: Sequence[Listing], evaluation: Mapping[str, Sequence[Path]], *, workers: int = 1
) -> tuple[list[Listing], dict[str, list[dict[str, Any]]]]:
    """Leave out training images that are near copies of evaluation images.

    Returns:
        The listings without them, and for each source the images dropped: `name`, evaluation `set`, the `match` in it
        and their `likeness`.
    """
    paths = [path for of_set in evaluation.values() for path in of_set]
    sets = [name for name, of_set in evaluation.items() for _ in of_set]
    known = fingerprint_images(paths, workers=workers, desc="evaluation images")
    kept, dropped = [], {}
    for listing in listings:
        prints = fingerprint_images(
            [i.path for i in listing.images], workers=workers, desc=f"images of {listing.source}"
        )
        copies = find_copies(prints, known)
        gone = np.zeros(len(listing.images), dtype=bool)
        gone[copies.train] = True
        kept.append(replace(listing, images=[i for i, out in zip(listing.images, gone, strict=True) if not out]))
        dropped[listing.source] = [
            {
                "name": listing.images[image].name,
                "set": sets[match],
                "match": "/".join(paths[match].parts[-2:]),
                "likeness": round(float(likeness), 3),
            }
            for image, match, likeness in zip(copies.train, copies.evaluation, copies.likeness, strict=True)
        ]
    return kept, dropped


def describe(
    listing: Listing, kept: Listing, dropped: Sequence[Mapping[str, Any]], shards: Sequence[Path]
) -> dict[str, Any]:
    """A source's entry in the manifest."""
    indices = [read_json(shard / INDEX) for shard in shards]
    names = "\n".join(image.name for image in in_packing_order(kept.images))
    return {
        "left_out_as_unseen_class": listing.unseen,
        "listed": len(listing.images),
        "dropped_as_copy_of": dict(sorted(Counter(entry["set"] for entry in dropped).items())),
        "kept": len(kept.images),
        "classes": len({image.label for image in kept.images}),
        "kept_names_sha256": sha256(names.encode()).hexdigest(),
        **asdict(FORMS[listing.source]),
        "psnr": round(sum(i["psnr"] * i["number"] for i in indices) / max(len(kept.images), 1), 2),
        "shards": {shard.name: index["bytes"] for shard, index in zip(shards, indices, strict=True)},
    }


def pack(
    listings: Sequence[Listing],
    evaluation: Mapping[str, Sequence[Path]],
    out: Path,
    *,
    limit: int = 52 * MIB,
    workers: int = 1,
) -> dict[str, Any]:
    """Drop copies, write the shards, then `dropped.json` and `manifest.json`, which is returned."""
    kept, dropped = drop_copies(listings, evaluation, workers=workers)
    sources = {}
    for listing, rest in zip(listings, kept, strict=True):
        shards = write_shards(rest, out, FORMS[listing.source], limit=limit, workers=workers)
        sources[listing.source] = describe(listing, rest, dropped[listing.source], shards)
    manifest = {
        "sources": sources,
        "evaluation": {name: len(paths) for name, paths in evaluation.items()},
        "copies": {"least_correlation": {"detail": DETAIL, "broad": BROAD, "fine": FINE}},
        "unseen_classes": sorted(read_unseen()),
    }
    write_json(out / "dropped.json", dropped)
    write_json(out / "manifest.json", manifest)
    return manifest


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", type=Path, required=True, help="Tiny-ImageNet: train/ and val/")
    parser.add_argument("--imagenette", type=Path, required=True, help="Imagenette: train/ and val/")
    parser.add_argument("--samples", type=Path, required=True, help="one image per ImageNet class, wnid in its name")
    parser.add_argument("--blood", type=Path, required=True, help="WBCAtt's tables and a folder of images per class")
    parser.add_argument("--evaluation", type=Path, nargs="+", required=True, help="further sets kept for evaluation")
    parser.add_argument("--out", type=Path, required=True, help="where the shards go")
    parser.add_argument("--shard-mib", type=int, default=52, help="largest shard (default: %(default)s MiB)")
    parser.add_argument("--workers", type=int, default=1, help="threads (default: %(default)s)")
    options = parser.parse_args(arguments)
    unseen = read_unseen()
    listings = [
        list_tiny(options.tiny, unseen),
        list_imagenette(options.imagenette, unseen),
        list_samples(options.samples, unseen),
        list_blood(options.blood),
    ]
    evaluation = {
        "tiny-val": list_evaluation(options.tiny / "val"),
        "tiny-unseen": [path for wnid in unseen for path in list_evaluation(options.tiny / "train" / wnid)],
        "imagenette-val": list_evaluation(options.imagenette / "val"),
        "blood-val-test": list_blood_evaluation(options.blood),
        **{folder.name: list_evaluation(folder) for folder in options.evaluation},
    }
    manifest = pack(listings, evaluation, options.out, limit=options.shard_mib * MIB, workers=options.workers)
    for source, entry in manifest["sources"].items():
        size = sum(entry["shards"].values()) / MIB
        print(
            f"{source}: {entry['kept']:,} images, {size:.1f} MiB in {len(entry['shards'])} shards, {entry['psnr']} dB"
        )


if __name__ == "__main__":
    sys.exit(main())
