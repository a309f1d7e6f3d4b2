"""Three folders as people have them, taken from a folder to a judged model; docs/own-data.md shows what they print.

    python examples/own_data.py blood-cells OUT              # labels per image: photographs and a sheet
    python examples/own_data.py idrid OUT --source IDRID     # grades in two tables, lesion masks, a class table
    python examples/own_data.py folder OUT                   # a folder for each class, and nothing else

`--small` makes them small enough for a test. IDRiD (Porwal et al. 2018, CC BY 4.0) is to be downloaded first.
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import conceptlens as cl
from conceptlens.core.files import dump_yaml, parse_yaml
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig

SMALL: dict[str, Any] = {
    "encoder": {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 32, "depth": 2, "heads": 2}},
    "training": {"epochs": 2, "batch_size": 16, "warmup": 0, "threads": 1, "rank_every": 0},
    "metrics": {"bootstrap": 20, "rank_images": 2},
}
# What the grades of the international scale say of lesions: true of most images of a grade, not of each. Whether there
# are hemorrhages and soft exudates is told by masks, image by image.
LESIONS_BY_GRADE = {
    "0": [],
    "1": ["microaneurysms"],
    "2": ["microaneurysms", "hard exudates"],
    "3": ["microaneurysms", "hard exudates", "venous beading"],
    "4": ["microaneurysms", "hard exudates", "venous beading", "new vessels"],
}


def write_blood_cells(folder: Path, n: int, *, sheet: bool = True) -> Path:
    """Some built-in blood cells as files in a folder for each class, with a sheet of what a person saw in them."""
    source, concepts = open_source(DataConfig("blood-cells"), None)
    examples = source.examples
    rows = []
    for index in range(0, len(source), max(1, len(source) // n)):
        name = f"cell_{index:04d}.png"
        kind = source.classes[examples.labels[index]]
        place = folder / "photos" / kind
        place.mkdir(parents=True, exist_ok=True)
        source.read(index).save(place / name)
        row = {"img_name": name, "label": kind}
        for group in concepts.groups:
            held = examples.concepts[index, group.concepts]
            row[group.column] = group.values[int(held.argmax())] if (held == 1).any() else ""
        rows.append(row)
    if sheet:
        with (folder / "sheet.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def blood_cells(out: Path, small: bool = False) -> cl.TrainedModel:
    """Labels per image: init, train with folds, trust."""
    folder = write_blood_cells(out / "cells", 60 if small else 400)
    setup = cl.init(folder, out=out / "cells-setup", overwrite=True)
    print(setup.text())
    model = cl.train(setup.recipe, _settings(small), out=out / "cells-run", overwrite=True, quiet=True)
    print(model.text())
    print(cl.trust(model, resamples=20 if small else 1000).text())
    return model


def idrid(out: Path, source: Path, small: bool = False) -> cl.TrainedModel:
    """Grades, masks, and lesions told by a class table: the weakest start, and what `trust` says of it."""
    setup = cl.init(source, out=out / "idrid-setup", overwrite=True)
    print(setup.text())
    file = setup.recipe.parent / "concepts.yaml"
    tree = parse_yaml(file.read_text("utf-8"), where=str(file))
    tree["groups"]["lesions"] = {"kind": "independent", "values": list(LESIONS_BY_GRADE["4"])}
    tree["by_class"] = {grade: {"lesions": list(LESIONS_BY_GRADE[grade])} for grade in tree["classes"]}
    file.write_text(dump_yaml(tree), "utf-8")
    print(cl.check_data(setup.recipe).text())
    model = cl.train(setup.recipe, _settings(small), out=out / "idrid-run", overwrite=True, quiet=True)
    print(model.text())
    print(cl.trust(model, resamples=20 if small else 1000, n=20 if small else 500).text())
    return model


def folder_alone(out: Path, small: bool = False) -> cl.TrainedModel:
    """No table and no concepts: a black box, what it has learned, and a first round of labels."""
    folder = write_blood_cells(out / "alone", 60 if small else 400, sheet=False)
    setup = cl.init(folder, out=out / "alone-setup", overwrite=True)
    print(setup.text())
    model = cl.train(setup.recipe, _settings(small), out=out / "alone-run", overwrite=True, quiet=True)
    print(model.text())
    found = cl.gig.decompose(
        str(model.path), str(folder), out=out / "alone-graph", n=12 if small else 200, k=4 if small else None,
        graphs=("none",), validate_on=0, overwrite=True,
    )  # fmt: skip
    print(found.text())
    concepts = {
        "classes": list(setup.check.classes),
        "groups": {
            "nucleus shape": {"values": ["round", "bean-shaped", "band", "lobed"]},
            "granules": {"values": ["none", "fine", "coarse"]},
        },
    }
    (setup.recipe.parent / "concepts.yaml").write_text(dump_yaml(concepts), "utf-8")
    recipe = setup.recipe.with_name("with-concepts.yaml")
    recipe.write_text(
        setup.recipe.read_text("utf-8").replace("method: black-box", "method: evidence-cbm\n\nconcepts: concepts.yaml"),
        "utf-8",
    )
    sheet = out / "to-label.csv"
    sheet.unlink(missing_ok=True)
    print(cl.api.label(recipe, table=sheet, n=20).text())
    print(f"{sheet}: fill it in, then `conceptlens label {recipe} --read {sheet}`")
    return model


def _settings(small: bool) -> dict[str, Any]:
    return {**SMALL, "encoder": {**SMALL["encoder"], "store": None, "train": "all"}} if small else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", choices=("blood-cells", "idrid", "folder"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", type=Path, help="the IDRiD folder")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    if given.example == "idrid":
        if given.source is None:
            parser.error("--source: where is IDRiD?")
        idrid(given.out, given.source, given.small)
    else:
        (blood_cells if given.example == "blood-cells" else folder_alone)(given.out, given.small)


if __name__ == "__main__":
    main()
