"""From cases to trials: what the page shows, and apart from it what is true."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.pages.pictures import base64_text, data_address, encode_image
from conceptlens.workflows.study.cases import QUESTIONS, Case
from conceptlens.workflows.study.distractors import distractors
from conceptlens.workflows.study.key import Kind, TrialKey
from conceptlens.workflows.study.shuffle import Control, Floats, shuffle

QUALITY = 82  # of WebP


def build(
    cases: Sequence[Case],
    catch: int,
    concepts: ConceptSet,
    vectors: npt.NDArray[np.float64],
    *,
    control: Control,
    options: int,
    attention: int,
    generator: np.random.Generator,
    wanted: Sequence[int] | None = None,
) -> tuple[dict[str, Any], list[TrialKey]]:
    """A trial for each question of each case, and some checks of attention.

    An image has one map for each question, so nobody can find the shuffled ones by comparing. Its two questions are
    about two groups, so neither names the answer of the other. Names, order and content of what the page holds say
    nothing of which is which.

    Args:
        cases: Images with their own maps, in random order.
        catch: So many of them are shown with a shuffled map.
        concepts: The vocabulary.
        vectors: (K, D) of the concepts' texts.
        control: How maps are shuffled.
        options: Answers to choose from, the right one among them.
        attention: Checks of attention: trials that say which number to press.
        generator: Of every random choice.
        wanted: Concepts that may be offered as answers; all by default.

    Returns:
        What the page shows, and the key.
    """
    caught = {int(n) for n in generator.permutation(len(cases))[:catch]}
    names = iter(_ids(2 * len(cases) + attention, generator))
    trials: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    keys: list[TrialKey] = []
    seen: dict[int, tuple[int, Floats]] = {}  # a concept and the map shown of it, for each image

    def add(
        kind: Kind, n: int, grid: Floats, k: int, page: dict[str, Any], chosen: list[int], answer: str | None
    ) -> None:
        name, case = next(names), cases[n]
        asks = "choice" if kind == "choice" else "likert"
        trials.append({"id": name, "kind": asks, "image": n, "map": len(maps), **page})
        maps.append(_map(grid))
        keys.append(
            TrialKey(
                id=name,
                kind=kind,
                image=case.name,
                class_name=case.class_name,
                concept=concepts.names[k],
                catch=n in caught,
                options=[concepts.names[k] for k in chosen],
                answer=answer,
            )
        )

    for question in QUESTIONS:
        own = [n for n, case in enumerate(cases) if question in case.asked]
        grids = [cases[n].grids[question] for n in own]
        for place, n in enumerate(own):
            case, k = cases[n], cases[n].asked[question]
            grid = shuffle(control, grids, place, generator) if n in caught else grids[place]
            seen[n] = k, grid
            if question == "likert":
                add("likert", n, grid, k, {"concept": _words(concepts, k)}, [], None)
                continue
            other = case.asked.get("likert")
            wrong = distractors(concepts, k, case.present, vectors, options - 1, generator, other, wanted)
            chosen = sorted([k, *wrong])  # in the order of the concept set, which says nothing of the truth
            add(
                "choice",
                n,
                grid,
                k,
                {"options": [_words(concepts, each) for each in chosen]},
                chosen,
                concepts.names[k],
            )
    for n in generator.permutation(len(cases))[:attention]:
        number = int(generator.integers(1, 6))
        asked = {"id": "", "name": f"This one checks that someone reads: please answer {number}", "text": ""}
        k, grid = seen[int(n)]  # the very map that is shown: another one of this image would give it away
        add("attention", int(n), grid, k, {"concept": asked}, [], str(number))
    order = generator.permutation(len(trials))  # a map is found by its trial's number, so it moves along
    maps = [maps[int(n)] for n in order]
    for place, n in enumerate(order):
        trials[int(n)]["map"] = place
    page = {
        "images": [_picture(case.picture) for case in cases],
        "maps": maps,
        "trials": [trials[int(n)] for n in order],
    }
    return page, [keys[int(n)] for n in order]


def _ids(count: int, generator: np.random.Generator) -> list[str]:
    numbers = generator.choice(2**32, size=count, replace=False)
    return [f"{int(number):08x}" for number in numbers]


def _words(concepts: ConceptSet, k: int) -> dict[str, str]:
    each = concepts.concepts[k]
    return {"id": each.name, "name": each.name, "text": each.text}


def _picture(picture: Image.Image) -> str:
    """As a data address; encoded anew, so that nothing of the file's own notes comes along."""
    return data_address(encode_image(picture, "WEBP", quality=QUALITY, method=4), "image/webp")


def _map(grid: Floats) -> dict[str, Any]:
    """A map as bytes, 255 at its largest."""
    largest = max(float(grid.max()), 1e-12)
    values = (255 * np.clip(grid / largest, 0, 1)).round().astype(np.uint8)
    return {"grid": list(grid.shape), "values": base64_text(values.tobytes())}
