"""Damaged images, tables, recipes and weights: refused with a reason or read, never a traceback, never a hang."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

from assault.mutate import MUTATIONS, edit_json, flip
from assault.watch import Part, command, judge
from assault.world import World
from conceptlens.core.files import read_yaml

FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM")
MODES = ("RGB", "L", "RGBA", "P", "1", "I;16", "F", "LA", "CMYK")


def assault_images(part: Part, world: World, seed: int, number: int) -> None:
    for each in range(number):
        draw = random.Random(f"image {seed} {each}")
        file, what = _image(world.root, draw)
        data = file.read_bytes()
        mutation = draw.choice((*MUTATIONS, flip, flip))
        file.write_bytes(mutation(data, draw))
        ended = command("predict", world.run, file, "--json")
        judge(part, each, f"predict {what}, {mutation.__name__}", ended)


def _image(root: Path, draw: random.Random) -> tuple[Path, str]:
    """An image of some format and mode; RGB where the two do not go together."""
    kind, mode = draw.choice(FORMATS), draw.choice(MODES)
    pixels = np.random.default_rng(draw.randrange(2**32)).integers(0, 256, (draw.choice((1, 7, 40)), 40, 3), np.uint8)
    file = root / f"image.{kind.lower()}"
    picture = Image.fromarray(pixels)
    try:
        shown = picture.convert("L").convert("I;16") if mode == "I;16" else picture.convert(mode)
        shown.save(file, kind)
    except (ValueError, OSError, KeyError):
        mode = "RGB"
        picture.save(file, kind)
    return file, f"{kind} {mode}"


def assault_tables(part: Part, world: World, seed: int, number: int) -> None:
    """The table of a run: other labels are refused, as they are not those of the training; a check never breaks."""
    table, whole = world.data.table, world.data.table.read_bytes()
    expected = command("evaluate", world.copy_run("tables"), "--json").answer
    try:
        for each in range(number):
            draw = random.Random(f"table {seed} {each}")
            mutation = draw.choice(MUTATIONS)
            table.write_bytes(mutation(whole, draw))
            checks = draw.random() < 0.5
            run = world.copy_run("tables")
            settings = ["--concepts", world.data.concepts, "--data.class_column", "diagnosis"]
            words = ["data", "check", table, *settings] if checks else ["evaluate", run, "--json"]
            ended = command(*words)
            what = f"{' '.join(map(str, words[:2]))}: {mutation.__name__}"
            if judge(part, each, what, ended) and not checks and str(ended.answer) != str(expected):
                part.found(each, what, "changed", ended.out[:1500])
    finally:
        table.write_bytes(whole)


def assault_recipes(part: Part, world: World, seed: int, number: int) -> None:
    """Recipes and concept files; nothing is trained, only resolved and estimated."""
    for each in range(number):
        draw = random.Random(f"recipe {seed} {each}")
        place = world.root / "recipe"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        concepts = draw.random() < 0.4
        source = world.data.concepts if concepts else world.data.recipe
        file = place / source.name
        mutation, data = draw.choice(MUTATIONS), source.read_bytes()
        if draw.random() < 0.6:  # values and keys rather than bytes; JSON is YAML
            mutation, data = edit_json, json.dumps(read_yaml(source)).encode()
        file.write_bytes(mutation(data, draw))
        words = ["concepts", "check", file] if concepts else [draw.choice(("recipe", "estimate")), file]
        judge(part, each, f"{words[0]}: {source.name}, {mutation.__name__}", command(*words))


def assault_weights(part: Part, world: World, seed: int, number: int) -> None:
    """Weights of an encoder that a recipe names: a file that does not fit is refused whole."""
    file = world.root / "encoder.safetensors"
    save_file({f"blocks.{name}.weight": np.ones((4, 4), np.float32) for name in range(3)}, file)
    whole = file.read_bytes()
    for each in range(number):
        draw = random.Random(f"weights {seed} {each}")
        mutation = draw.choice(MUTATIONS)
        file.write_bytes(mutation(whole, draw))
        words = ["train", world.data.recipe, "--encoder.weights", file, "--out", world.root / "weights run", "--quiet"]
        ended = command(*words, "--encoder.pretrained", "true")
        judge(part, each, f"train with weights: {mutation.__name__}", ended)
        shutil.rmtree(world.root / "weights run", ignore_errors=True)
