"""Every layout × {frozen with a store, last block, explain, export .pt2 and ONNX, decompose}: works, or is refused.

A refusal must be a `UserError` that comes before any work and says what to do; `REFUSED` lists them.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.gig import decompose
from tests.encoders.matrix.layouts import LAYOUTS
from tests.training.tiny import tiny

pytest.importorskip("open_clip")
pytest.importorskip("transformers", minversion="5")
REFUSED: dict[tuple[str, str], str] = {}  # (layout, step) → words of the reason
FEW: dict[str, Any] = {"n": 16, "k": 4, "examples": 1, "validate_on": 0, "graphs": [], "most_steps": 8, "crops": 2}


def steps(encoder: dict[str, Any], folder: Path, images: int = 48) -> dict[str, Any]:
    """Each step as a function; later ones use the run of the last block."""

    def run(name: str, **more: Any) -> Any:
        recipe = tiny(
            folder / name,
            encoder={**encoder, "store": "run", "text": "builtin/hashed-text", **more},
            method={"name": "evidence-cbm"},
            data={"source": "shapes", "shapes": {"n": images, "size": 32}},
            training__epochs=1,
        )
        return cl.train(recipe, quiet=True)

    picture = folder / "picture.png"
    Image.new("RGB", (40, 32), "red").save(picture)
    last = folder / "last"
    return {
        "frozen": lambda: run("frozen", train="none"),
        "last": lambda: run("last", train=1),
        "explain": lambda: cl.explain(last, [picture]),
        "pt2": lambda: cl.export(last, format="torch"),
        "onnx": lambda: cl.export(last, format="onnx"),
        "decompose": lambda: decompose(last, data="shapes", rule="gradient", out=folder / "gig", **FEW),
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_cell_works_or_is_refused(layout: str, tmp_path: Path) -> None:
    outcome = {}
    for step, work in steps(LAYOUTS[layout](tmp_path / "model"), tmp_path).items():
        try:
            work()
            outcome[step] = ""
        except UserError as error:
            outcome[step] = str(error)
    expected = {step: REFUSED.get((layout, step), "") for step in outcome}
    for step, words in expected.items():
        assert (words in outcome[step]) if words else not outcome[step], f"{layout}, {step}: {outcome[step]!r}"
    shutil.rmtree(tmp_path)
