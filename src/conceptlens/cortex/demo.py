"""`conceptlens codebook demo`: the built-in generator looked into, from samples to an edit, without a network."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.core.progress import Note
from conceptlens.cortex.bias.study import bias_result, draw
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.training import ExtractorTraining
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import BUILTIN, open_model
from conceptlens.cortex.pictures import sheet
from conceptlens.cortex.results import edit_result, search_result, tokens_result
from conceptlens.cortex.study import new_study, open_study

SMALL: Mapping[str, int | float | str] = {"filters": 64, "hidden": 256}
SHOWN = 6  # samples in a row
SEARCH = SearchSettings(steps=300, temperature=1.0, last_temperature=0.3, keep="best")


def sample_sheet(
    model: VQModel, conditions: list[Condition], n: int, out: Path, *, seed: int = 0, note: Note = lambda text: None
) -> str:
    """Samples of conditions as a picture, and their tokens as JSON beside it."""
    if out.suffix.lower() != ".png":
        raise UserError(f"--out {out}: expected a file that ends in .png.")
    drawn = {condition.text(): draw(model, condition, n, seed=seed, note=note) for condition in conditions}
    return write_sheet(model, drawn, out, seed=seed)


def write_sheet(model: VQModel, drawn: Mapping[str, Tensor], out: Path, *, seed: int = 0) -> str:
    """Token grids (n, h, w) by what was asked for: painted in rows, and as JSON."""
    rows = [(name, model.decode(tokens.to(model.codebook.device)).cpu()) for name, tokens in drawn.items()]
    data = [{"condition": name, "tokens": tokens.tolist()} for name, tokens in drawn.items()]
    write_bytes(out, sheet(rows))
    write_json(out.with_suffix(".json"), {"model": model.name, "seed": seed, "samples": data})
    n = max(len(tokens) for tokens in drawn.values())
    return f"{n} samples of {len(drawn)} conditions written to {out}, their tokens to {out.with_suffix('.json')}"


def demo(
    out: str | Path = "runs/codebook-demo",
    *,
    model_name: str = BUILTIN,
    per_concept: int = 40,
    attribute: str | None = None,
    again: bool = False,
    note: Note = lambda text: None,
) -> str:
    """Sample, train extractors, name tokens, search, edit and look for a bias: a few minutes on two cores.

    Args:
        out: Folder for two studies (classes, and values of an attribute) and their results.
        model_name: A model that generates.
        per_concept: Samples of each concept.
        attribute: Whose values are compared; the model's first by default.
        again: Start anew where a demo is in the way.
        note: Called with progress messages.
    """
    folder = Path(out)
    model = open_model(model_name)
    if len(model.classes) < 2 or not model.generates or not model.attributes:
        raise UserError(f"{model_name}: the demo needs a model that generates several classes and knows attributes.")
    chosen = attribute or next(iter(model.attributes))
    if chosen not in model.attributes:
        raise unknown_name("attribute", chosen, model.attributes)
    training = ExtractorTraining(epochs=12, batch=16)  # small batches: few samples, enough steps
    values = [f"{chosen}={value}" for value in model.attributes[chosen]]
    for name, concepts in (("classes", list(model.classes)), ("values", values)):
        place = folder / name
        there = (place / "run.json").exists()
        if again or not there or read_json(place / "run.json").get("status") != "done":
            new_study(
                model_name,
                place,
                concepts=concepts,
                per_concept=per_concept,
                training=training,
                overwrite=there,
                options=SMALL,
                chunk=10,  # so that something is said every few seconds
                note=note,
            )
    study = open_study(folder / "classes")
    train = study.samples["train"]
    drawn = {"neutral": draw(model, Condition(), SHOWN, seed=0)}
    drawn |= {name: train.of(place, SHOWN) for place, name in enumerate(train.concepts)}
    words = [write_sheet(model, drawn, folder / "samples.png")]
    accuracy = ", ".join(f"{name} {value:.3f}" for name, value in study.extractor.card.accuracy.items())
    words.append(f"extractor of classes: {accuracy}")
    cells = study.model.grid[0] * study.model.grid[1]
    words.append(tokens_result(study, n=min(20, cells), k=20, limit=40, show=2).text())
    other = model.classes[1]
    words.append(search_result(study, other, images=2, settings=SEARCH).text())
    side = f"{max(1, study.model.grid[0] // 2)}x{max(1, study.model.grid[1] // 2)}"
    gently = replace(SEARCH, start="image", keep="final")
    words.append(edit_result(study, other, f"center {side}", sample=0, settings=gently).text())
    study = open_study(folder / "values")
    bias = bias_result(study, n=(10,), neutral=2 * per_concept, limit=60, permutations=50, note=note)
    words.append(bias.text())
    return "\n".join(words)
