"""A codebook study of a tiny generator, as the commands write it: tokens, an edit, a search, and a bias study."""

import shutil
from pathlib import Path

from conceptlens.core.files import write_text
from conceptlens.cortex.bias.study import bias_result
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.training import ExtractorTraining
from conceptlens.cortex.results import edit_result, search_result, tokens_result
from conceptlens.cortex.study import new_study
from tests.cortex.tiny import save_small_generator

TRAINING = ExtractorTraining(epochs=2, batch=16)
NETWORK = {"filters": 8, "hidden": 16}


def make_studies(root: Path, *, written: bool = True) -> Path:
    """`shapes` (classes) and `sizes` (values of an attribute, with a bias study) of one model beside them."""
    model = save_small_generator(root / "model", "round", "square", "<b>long</b>", side=32)
    shapes = root / "runs" / "shapes"
    study = new_study(str(model), shapes, per_concept=20, training=TRAINING, options=NETWORK)
    if written:
        tokens_result(study, n=6, k=12, samples=3, limit=10, show=2)
        few = SearchSettings(steps=12, record_every=3)
        edit_result(study, "square", "center 4x4", sample=0, settings=few)
        search_result(study, "round", images=2, settings=few)
    sizes = root / "runs" / "sizes"
    values = ["size=small", "size=big"]
    study = new_study(str(model), sizes, concepts=values, per_concept=20, training=TRAINING, options=NETWORK)
    if written:
        bias_result(study, n=(4, 6), k=5, neutral=40, limit=20, permutations=20)
    return root / "runs"


def without_model(root: Path, to: Path) -> Path:
    """A copy of the study of classes whose model is gone."""
    copy = shutil.copytree(root / "shapes", to / "alone")
    text = (copy / "run.json").read_text("utf-8")
    write_text(copy / "run.json", text.replace(str(root.parent / "model"), str(root.parent / "gone")))
    return copy.parent
