"""A study whose model and extractor are in memory: on the CPU, read from weights only."""

import threading
from collections import OrderedDict
from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.cortex.extractors.importance import PAPER, SmoothGrad
from conceptlens.cortex.extractors.trained import probabilities
from conceptlens.cortex.generators.condition import parse_condition
from conceptlens.cortex.generators.contract import check_tokens
from conceptlens.cortex.grids import heats, nearest_codes
from conceptlens.cortex.masking import cover, spread_ids
from conceptlens.cortex.pictures import png, to_bytes
from conceptlens.cortex.study import Study, open_study
from conceptlens.data.images.read import resize_square
from conceptlens.pages.pictures import data_address
from conceptlens.web.schemas.studio import Heat, HeatRequest, Masked, MaskRequest, Neighbor, Reading
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.problems import Problem, bad, missing
from conceptlens.web.views.studio import FOLDER, model_of, study_info

KEPT = 2  # studies in memory
SAMPLES = 64  # of noise, at most
CPU = torch.device("cpu")
NOTES = {
    "code": "The hidden places hold the mean of all codes; that is what is painted, and what the extractor reads.",
    "pixels": "The pixels of the hidden places are covered, and the covered picture is turned into tokens again, which "
    "the extractor reads: other tokens may change as well.",
}


class LoadedStudy:
    """A study that can be asked. Its weights never learn, so several threads may use it."""

    def __init__(self, entry: RunEntry) -> None:
        info = study_info(entry)
        try:
            model = model_of(info)
        except (KeyError, TypeError):
            raise Problem(409, "broken", f"{entry.shown}/run.json: names no model; it was edited or damaged.") from None
        if not model.here:
            raise missing(
                f"The model of this study cannot be opened: {model.why}. What its commands wrote is shown; new images, "
                "masks and edits need the model."
            )
        entry.check_links()
        self.entry = entry
        try:
            self.study: Study = open_study(entry.path, device=CPU)
        except UserError as error:
            raise Problem(409, "broken", str(error)) from None
        self.settings = written_settings(entry)
        self.study.model.eval().requires_grad_(False)
        self.study.extractor.eval().requires_grad_(False)

    @property
    def grid(self) -> tuple[int, int]:
        return self.study.extractor.card.grid

    def tokens(self, rows: list[list[int]]) -> Tensor:
        """A grid (h, w) from a request, or a 400."""
        tall, wide = self.grid
        if len(rows) != tall or any(len(row) != wide for row in rows):
            raise bad(f"tokens: expected {tall} rows of {wide} token ids.")
        tokens = torch.tensor(rows)
        try:
            check_tokens(tokens[None], len(self.study.codebook))
        except UserError as error:
            raise bad(f"tokens: {error}") from None
        return tokens

    def mask(self, cells: list[int]) -> Tensor:
        """Marked positions (h, w) from a request, or a 400."""
        tall, wide = self.grid
        if max(cells) >= tall * wide:
            raise bad(f"cells: the grid has positions 0 to {tall * wide - 1}, row by row; found {max(cells)}.")
        found = torch.zeros(tall * wide, dtype=torch.bool)
        found[cells] = True
        return found.view(tall, wide)

    @torch.no_grad()
    def shares(self, embeddings: Tensor) -> list[float]:
        """The extractor's probabilities of one image's embeddings (1, d, h, w)."""
        return [round(value, 6) for value in probabilities(self.study.extractor, embeddings)[0].tolist()]

    def picture(self, tokens: Tensor) -> str | None:
        """A grid (h, w) painted; None for a model that cannot."""
        return as_data(self.study.decode(tokens[None])) if self.study.model.decodes else None

    def read(self, tokens: Tensor, *, title: str, concept: int | None = None) -> Reading:
        """What the page must know of a grid (h, w)."""
        near = nearest_codes(self.study.codebook, sorted(set(tokens.flatten().tolist())))
        return Reading(
            tokens=tokens.tolist(),
            probabilities=self.shares(self.study.embed(tokens[None])),
            concept=concept,
            near={code: [Neighbor(code=other, distance=far) for other, far in found] for code, found in near.items()},
            picture=self.picture(tokens),
            title=title,
        )

    def generate(self, words: str, seed: int) -> Reading:
        """A new image of a condition."""
        model, names = self.study.model, self.study.extractor.card.concepts
        if not model.generates:
            raise bad(f"{model.name} does not generate; open an image file instead.")
        try:
            condition = parse_condition(words, model.classes, model.attributes)
        except UserError as error:
            raise bad(f"condition: {error}") from None
        with torch.no_grad():
            tokens = model.generate(condition, 1, seed=seed)[0].cpu()
        concept = names.index(words) if words in names else None
        return self.read(tokens, title=f"{condition.text()}, seed {seed}", concept=concept)

    def encode(self, image: Image.Image) -> Reading:
        """A picture as the model's tokens."""
        pixels = torch.from_numpy(resize_square(image, self.study.model.image_size))[None].float().div_(255)
        return self.read(self.study.model.encode(pixels)[0].cpu(), title="a file that was opened")

    def heat(self, asked: HeatRequest) -> Heat:
        """Importance of a grid's tokens to a concept."""
        names = self.study.extractor.card.concepts
        if asked.concept >= len(names):
            raise bad(f"concept: there are {len(names)}, counted from 0; found {asked.concept}.")
        (found,) = heats(self.study, self.tokens(asked.tokens), [asked.concept], self.settings)
        return Heat(**found)

    @torch.no_grad()
    def masked(self, asked: MaskRequest) -> Masked:
        """An image without some of its tokens."""
        model = self.study.model
        if not model.decodes and asked.fill != "code":
            raise bad(f"{model.name} has no decoder, so there are no pixels to cover; fill with `code`.")
        tokens, chosen = self.tokens(asked.tokens)[None], self.mask(asked.cells)[None]
        hidden = spread_ids(tokens, chosen) if asked.hide == "ids" else chosen
        whole = self.study.embed(tokens)
        if asked.fill == "code":
            mean = self.study.codebook.mean(0)[None, :, None, None]
            left = torch.where(hidden[:, None], mean, whole)
            picture = model.decode_embeddings(left) if model.decodes else None
        else:
            picture = cover(model.decode_embeddings(whole), hidden, asked.fill)
            left = self.study.embed(model.encode(picture).cpu())
        return Masked(
            hidden=hidden.flatten().nonzero()[:, 0].tolist(),
            before=self.shares(whole),
            after=self.shares(left),
            picture=None if picture is None else as_data(picture),
            note=NOTES["code" if asked.fill == "code" else "pixels"],
        )


def written_settings(entry: RunEntry) -> SmoothGrad:
    """How the importance that was written was computed, so that what is asked for later is the same measure."""
    path = entry.file(f"{FOLDER}/grids.json")
    try:
        found = SmoothGrad(**read_json(path)["settings"]) if path else PAPER
    except (UserError, KeyError, TypeError):
        return PAPER  # a damaged file is told of where it is shown
    return replace(found, samples=min(found.samples, SAMPLES))


def as_data(images: Tensor) -> str:
    """The first of images (n, 3, H, W) as an address that holds a PNG."""
    return data_address(png(Image.fromarray(to_bytes(images[:1])[0])), "image/png")


class StudyCache:
    """The studies that were used last."""

    def __init__(self, size: int = KEPT) -> None:
        self._size, self._lock = size, threading.Lock()
        self._kept: OrderedDict[tuple[str, int], LoadedStudy] = OrderedDict()

    def get(self, entry: RunEntry) -> LoadedStudy:
        """A study with its model; one that was made anew is opened anew. One is opened at a time."""
        mark = entry.file("extractor/extractor.json")
        name = (str(entry.path), mark.stat().st_mtime_ns if mark else 0)
        with self._lock:
            if name not in self._kept:
                self._kept[name] = LoadedStudy(entry)
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(name)
            return self._kept[name]
