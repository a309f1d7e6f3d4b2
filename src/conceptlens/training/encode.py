"""`conceptlens encode`: fill a recipe's token store before anything trains."""

import time
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.processes import Launched
from conceptlens.recipes import Recipe
from conceptlens.training.batches.stored import fill_store
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session


@dataclass(frozen=True, repr=False)
class EncodedImages(ResultMixin):
    """What `encode` did."""

    path: Path
    images: int
    encoded: int
    seconds: float
    megabytes: float

    def text(self) -> str:
        found = f"{self.images - self.encoded:,} were there" if self.encoded < self.images else "all new"
        return (
            f"{self.path}: {self.images:,} images, {found}; {self.megabytes:,.0f} MB, {self.seconds:.0f} s. "
            f"Train with --encoder.store {self.path}"
        )


def encode_recipe(recipe: Recipe, *, quiet: bool = False) -> EncodedImages:
    """Fill the store that a recipe names."""
    if recipe.encoder.store in (None, "run"):
        raise UserError("encoder.store: expected a folder for the tokens. Add --encoder.store FOLDER.")
    processes = Launched(recipe.training.precision)
    started = time.perf_counter()
    session = open_session(recipe, None, processes, Progress(quiet=quiet or not processes.main))
    store, encoded = fill_store(session, Path(recipe.encoder.store))
    size = sum(file.stat().st_size for file in store.path.glob("shard-*.npy")) / 1e6
    return EncodedImages(store.path, store.key.images, encoded, time.perf_counter() - started, size)
