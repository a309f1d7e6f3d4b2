"""The same method trained again with nothing of the class in its concepts: what leakage is measured against."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.methods.class_terms import without_class
from conceptlens.runs.opened import OpenedRun
from conceptlens.training.train import start_run


@contextmanager
def trained_without_class(run: OpenedRun, note: Callable[[str], object]) -> Iterator[OpenedRun | None]:
    """A run of the same recipe whose class loss stops before the concepts, behind the encoder as it came.

    None where the method cannot do without the class, or the run's data is not there. It is gone afterwards.
    """
    method = without_class(run.recipe.method)
    if method is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="conceptlens-") as folder:
        out = str(Path(folder) / "reference")
        recipe = replace(run.recipe, method=method, out=out, concepts=str(run.path / "concepts.yaml"))
        if recipe.encoder.train != "none":
            encoder = replace(recipe.encoder, train="none", store=None)
            recipe = replace(recipe, encoder=encoder, regularizer={"name": "none"})
        note("training the same method without the class, for comparison")
        try:
            start_run(recipe, lambda *_: None, data=run.memory, quiet=True)
            found: OpenedRun | None = OpenedRun.open(out, device=run.device, data=run.memory)
        except UserError as error:
            note(f"it could not be trained: {error}")
            found = None
        yield found
