"""A key made by hand, with as many trials as a test wants, and a pack around it."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from conceptlens.core.files import write_json, write_text
from conceptlens.workflows.study.key import Key, TrialKey
from conceptlens.workflows.study.power import Plan, images_needed
from conceptlens.workflows.study.rendering import render
from conceptlens.workflows.study.responses import Answered, Responses

CONCEPTS = [f"axis {n}: yes" for n in range(8)]


def make_key(images: int = 40, catch: int = 10, attention: int = 4, options: int = 5, seed: int = 0) -> Key:
    generator = np.random.default_rng(seed)
    trials: list[TrialKey] = []
    for n in range(images + catch):
        chosen = [CONCEPTS[int(k)] for k in generator.permutation(len(CONCEPTS))[:options]]
        common: dict[str, Any] = {"image": f"image {n}", "class_name": None, "catch": n >= images}
        trials.append(
            TrialKey(id=f"c{n}", kind="choice", concept=chosen[0], options=sorted(chosen), answer=chosen[0], **common)
        )
        trials.append(TrialKey(id=f"l{n}", kind="likert", concept=chosen[1], **common))
    for n in range(attention):
        trials.append(
            TrialKey(
                id=f"a{n}",
                kind="attention",
                image=f"image {n}",
                class_name=None,
                concept=CONCEPTS[0],
                catch=False,
                answer=str(n % 5 + 1),
            )
        )
    return Key(
        study="0123456789abcdef",
        run="run",
        data="birds",
        method="ivq-cbm",
        weights="w",
        split="test",
        map="attention",
        control="moved",
        seed=seed,
        images=images,
        catch=catch,
        power=images_needed(Plan()),
        reached=0.9,
        trials=trials,
    )


def answers(rater: str, given: dict[str, str], ms: int = 3000) -> Responses:
    return Responses(
        study="0123456789abcdef",
        rater=rater,
        answers={name: Answered(answer=answer, ms=ms) for name, answer in given.items()},
    )


def make_pack(folder: Path, key: Key) -> Path:
    """A pack around a key: what `study make` writes, with pictures and maps of a few pixels."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), (150, 60, 90)).save(picture, "WEBP")
    address = "data:image/webp;base64," + base64.b64encode(picture.getvalue()).decode()
    names = list(dict.fromkeys(trial.image for trial in key.trials))
    trials: list[dict[str, Any]] = []
    for n, trial in enumerate(key.trials):
        asked = {"id": trial.concept, "name": trial.concept, "text": "a text"}
        if trial.kind == "attention":
            asked = {"id": "", "name": f"please answer {trial.answer}", "text": ""}
        options = [{"id": name, "name": name, "text": ""} for name in trial.options]
        part: dict[str, Any] = {"options": options} if trial.kind == "choice" else {"concept": asked}
        kind = "choice" if trial.kind == "choice" else "likert"
        trials.append({"id": trial.id, "kind": kind, "image": names.index(trial.image), "map": n, **part})
    values = base64.b64encode(bytes([0, 80, 160, 255])).decode()
    maps = [{"grid": [2, 2], "values": values} for _ in trials]
    page = render({"study": key.study, "images": [address] * len(names), "maps": maps, "trials": trials})
    write_text(folder / "study.html", page)
    key.write(folder / "key.json")
    info = {"id": folder.name, "kind": "study", "status": "done", "method": key.method, "data": {"name": key.data}}
    told = {"run": key.run, "study": key.study, "images": key.images, "catch": key.catch}
    write_json(folder / "run.json", {**info, **told, "questions": len(trials)})
    return folder
