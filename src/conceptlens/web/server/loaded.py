"""A run whose model is in memory, and the cache of the models that were used last."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import SPLITS, DataSource
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.interventions.value_map import ValueMap, fit_map
from conceptlens.explanations.caution import Caution
from conceptlens.explanations.document import Reference
from conceptlens.explanations.reference import Background, background, kept_background
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.runs.readout import Readout, read_out
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.problems import Problem, missing, not_found
from conceptlens.web.views.runs import measured_split

if TYPE_CHECKING:
    from conceptlens.web.views.atlas import Atlas

Made = TypeVar("Made")
MODELS = 4  # kept in memory
JUDGED: tuple[Split, ...] = ("test", "val")


class LoadedRun:
    """An opened run for many who ask at once; everything but the model is opened when it is first asked for.

    A prediction holds `passing`: two at once would only be in each other's way. The class head alone may be asked at
    any time.
    """

    def __init__(self, entry: RunEntry) -> None:
        if entry.file("model/model.json") is None:
            raise missing(f"{entry.shown}: this run has no model yet.", entry.command("resume"))
        entry.check_links()
        self.entry = entry
        self.opened = OpenedRun(RunFolder(entry.path))  # a run that still trains may have a model
        self.pipeline, self.card, self.device = self.opened.pipeline, self.opened.card, self.opened.device
        self.vocabulary: ConceptSet = self.opened.concepts
        self.concepts: ConceptSet = self.opened.read_concepts
        self.passing = threading.Lock()
        self.looking = self.named = False
        self.mapping = threading.Lock()  # one look at a sample of images at a time
        self.atlas: Atlas | None = None
        self._making = {
            name: threading.Lock() for name in ("source", "background", "caution", "readout", "values", *SPLITS)
        }
        self._made: dict[str, object] = {}

    def _once(self, name: str, make: Callable[[], Made]) -> Made:
        """What a name stands for, made by the first who asks. Not to be asked for while holding `passing`."""
        with self._making[name]:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]

    @property
    def source(self) -> DataSource:
        """The run's data; a 409 that says why where it is gone or another by now."""

        def make() -> DataSource:
            self.opened.splits  # noqa: B018 - opens the source and checks both
            return self.opened.source

        try:
            return self._once("source", make)
        except UserError as error:
            raise missing(f"The run's images cannot be opened: {error}") from None

    def index(self, split: str, row: int) -> int:
        """The position in the source of an image of a split."""
        source = self.source
        rows = self.opened.splits[split]
        if row >= len(rows):
            raise not_found(f"{split} has {len(rows)} images, counted from 0; {row} is not one of them.")
        index = int(rows[row])
        assert index < len(source)
        return index

    @property
    def background(self) -> Background:
        """What images are compared with: as the run keeps it, or from its kept predictions, or from a sample.

        Kept predictions give the average image at once but no names of codes; those come with `name_codes`.
        """

        def make() -> Background:
            if not self.concepts.concepts:
                return background(self.opened)
            kept = kept_background(self.entry.path, self.card, self.concepts)
            if kept is not None:
                return kept
            try:
                readout = self.readout if measured_split(self.entry) == self.judged_split else None
            except Problem:
                readout = None
            if readout is None:
                return background(self.opened)
            rows = spread(np.arange(len(readout)))
            average = Reference(what="average image", images=len(rows), split=self.judged_split)
            return Background(average, readout.bottleneck[rows].mean(0), None)

        return self._once("background", make)

    @property
    def caution(self) -> Caution:
        """What warns of an answer."""
        return self._once("caution", lambda: Caution.read(self.entry.path, self.card))

    @property
    def lacks_names(self) -> bool:
        """Whether codes could have names and nobody has looked yet."""
        codebook = getattr(self.pipeline.regularizer, "codebook", None)
        return codebook is not None and self.has_slots and self.background.codes is None and not self.named

    def name_codes(self) -> None:
        """Look at a sample of images for what codes stand for; the run keeps the answer."""
        with self.mapping:
            if self.lacks_names:
                self.named = True  # or cannot be: it is not tried again
                found = background(self.opened)
                if found.codes is not None:
                    self._made["background"] = found

    def kept(self, split: str) -> StoredPredictions | None:
        """What training kept of the images of a split; None if nothing."""
        if self.entry.file(f"predictions/{split}.safetensors") is None:
            return None
        return self._once(split, lambda: self.opened.predictions(split))

    @property
    def judged_split(self) -> Split:
        """The split whose kept predictions teach what labels are worth: the test, or else validation."""
        for split in JUDGED:
            found = self.kept(split)
            if found is not None and len(found.ids):
                return split
        raise missing(
            f"{self.entry.shown}: this run keeps no predictions of its images, as runs of this version do. Train it "
            "again."
        )

    @property
    def readout(self) -> Readout:
        """What the class head read of the images of `judged_split`, and the head."""
        stored = self.kept(self.judged_split)
        assert stored is not None

        def make() -> Readout:
            try:
                return read_out(self.pipeline.model, stored, self.vocabulary)
            except UserError as error:
                raise missing(f"{self.entry.shown}: {error}") from None

        return self._once("readout", make)

    @property
    def values(self) -> ValueMap:
        """What a label or a probability is worth to the head."""
        readout = self.readout
        return self._once("values", lambda: fit_map(readout, np.arange(len(readout))))

    @cached_property
    def has_slots(self) -> bool:
        return isinstance(getattr(self.pipeline.model, "concept_slot", None), torch.Tensor)

    def slot(self, concept: int) -> int | None:
        """The slot that a concept reads; None for methods without slots."""
        return int(self.pipeline.model.concept_slot[concept]) if self.has_slots else None


class ModelCache:
    """Least recently used cache of runs with their models."""

    def __init__(self, size: int = MODELS) -> None:
        self._size = max(size, 1)
        self._runs: OrderedDict[tuple[str, int], LoadedRun] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[tuple[str, int], threading.Lock] = {}

    def get(self, entry: RunEntry) -> LoadedRun:
        """A run with its model. A run that was trained again is loaded again; two requests at once load it once."""
        model = entry.file("model/model.json")
        name = (str(entry.path), model.stat().st_mtime_ns if model else 0)
        with self._lock:
            if name in self._runs:
                self._runs.move_to_end(name)
                return self._runs[name]
            loading = self._loading.setdefault(name, threading.Lock())
        with loading:
            with self._lock:
                if name in self._runs:
                    return self._runs[name]
            try:
                loaded = LoadedRun(entry)
            except UserError as error:
                raise Problem(409, "broken", str(error)) from None
            finally:
                with self._lock:
                    self._loading.pop(name, None)
            with self._lock:
                for old in [each for each in self._runs if each[0] == name[0]]:
                    del self._runs[old]
                self._runs[name] = loaded
                while len(self._runs) > self._size:
                    self._runs.popitem(last=False)
            return loaded

    def ready(self, entry: RunEntry) -> bool:
        """Whether a run is in memory."""
        return any(path == str(entry.path) for path, _ in self._runs)
