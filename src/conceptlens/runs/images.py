"""Images of the run's own data: opened when asked for, and only if they are still those of the run."""

from functools import cached_property

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.image_choice import Indices, Show, choose
from conceptlens.runs.saved import Card

__all__ = ["Indices", "OwnImages", "Show"]


class OwnImages:
    """The data and the splits of a run."""

    def __init__(self, run: RunFolder, concepts: ConceptSet) -> None:
        self.run, self.concepts = run, concepts

    @cached_property
    def source(self) -> DataSource:
        source, _ = open_source(load_recipe(self.run.path / "recipe.yaml").data, self.concepts)
        if source.examples.fingerprint != self.run.info["data"]["hash"]:
            raise UserError(
                f"{source.name}: names or labels changed since this run was trained. Bring the same data back, or name "
                "image files instead."
            )
        return source

    @cached_property
    def splits(self) -> Splits:
        where = self.run.path / "splits.json"
        return Splits.from_json(read_json(where), self.source.examples.ids, where=str(where))

    def shown(self) -> tuple[str, Indices]:
        """The split that the run's numbers speak of: the test, or validation where no test image has a class."""
        where = self.run.path / "metrics.json"
        try:
            split = "test" if read_json(where)["splits"].get("test", {}).get("class", {}).get("n") else "val"
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{where}: expected what training writes. Copy the run folder again.") from None
        indices = self.splits[split]
        if not len(indices):
            raise UserError(f"{self.run.path / 'splits.json'}: no image in {split}.")
        return split, indices

    def choose(self, pipeline: Pipeline, card: Card, *, split: str, show: str, n: int) -> Indices:
        """At most n images of a split; all but `all` need predictions of the whole split."""
        return choose(self, pipeline, card, split=split, show=show, n=n)
