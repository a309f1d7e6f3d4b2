"""Each code of the codebook over a sample of images: its patches, classes, use and flags."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.explanations.codes import UNNAMED
from conceptlens.explanations.document import CodeName
from conceptlens.explanations.pictures.colors import code_color
from conceptlens.nn.quantization.usage import perplexity
from conceptlens.runs.annotations import read_annotations
from conceptlens.stats.pca import places
from conceptlens.web.schemas.concepts import Codebook, CodeEntry, Flag, NearCode, PatchRef, Projection
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import missing
from conceptlens.web.views.atlas import Atlas, atlas_of

EXAMPLES = 12
DUPLICATE = 0.98  # cosine from which two codes count as nearly the same
ONE_CLASS = 0.9
Floats = npt.NDArray[np.float64]


def codebook_of(loaded: LoadedRun, *, look: bool = True) -> Codebook:
    """All codes, or a 409 for a run without.

    Args:
        loaded: The run.
        look: Look at a sample of its images if nobody has yet, which takes seconds.
    """
    codebook = getattr(loaded.pipeline.regularizer, "codebook", None)
    if not isinstance(codebook, torch.Tensor) or codebook.ndim != 2:
        raise missing(f"{loaded.entry.shown}: this run has no codebook; `regularizer: ivq` has one.")
    atlas = atlas_of(loaded) if look else loaded.atlas
    vectors = codebook.detach().double().cpu().numpy()
    seen: _Seen | None = None
    if atlas is not None:
        if atlas.codes is None:
            raise missing(f"{loaded.entry.shown}: the codebook of this run is not used for images.")
        counts = np.bincount(atlas.codes.ravel(), minlength=len(vectors))
        seen = _Seen(atlas, counts, _by_class(atlas, len(vectors), len(loaded.card.classes)))
        loaded.name_codes()
    background = loaded.background
    names = {each.code: each for each in background.codes or ()}
    given = given_names(loaded)
    close = _similarities(vectors)
    spots, shares = places(vectors)
    return Codebook(
        complete=seen is not None,
        split=seen.atlas.split if seen else None,
        images=len(seen.atlas.rows) if seen else 0,
        grid=seen.atlas.grid if seen else None,
        patches=int(seen.counts.sum()) if seen else 0,
        perplexity=perplexity(torch.from_numpy(seen.counts)) if seen else None,
        why=background.reference.why,
        map=Projection(of="codes", explained=shares),
        classes=loaded.card.classes,
        codes=[
            _entry(code, names.get(code), given.get(str(code)), close[code], spots[code], seen)
            for code in range(len(vectors))
        ],
    )


@dataclass(frozen=True)
class _Seen:
    """Statistics of the codes over the sampled images."""

    atlas: Atlas
    counts: npt.NDArray[np.int64]  # (M,)
    classes: Floats  # (M, C)

    def flags(self, code: int, name: str) -> list[Flag]:
        """Flags about the use of one code."""
        found: list[Flag] = []
        if not self.counts[code]:
            found.append(Flag(name="dead", why="no patch of the sample is nearest to it"))
        elif name == UNNAMED:
            found.append(Flag(name="unnamed", why="its patches go to no concept or group more than to others"))
        most = self.classes[code].max(initial=0)
        if most >= ONE_CLASS:
            found.append(Flag(name="one class", why=f"{most:.0%} of its patches are of one class"))
        return found


def given_names(loaded: LoadedRun) -> dict[str, str]:
    """What people call codes, by their number; the group that they gave stands before the name."""
    said = read_annotations(loaded.entry.path)["code"]
    return {code: each.called for code, each in said.items()}


def _entry(
    code: int,
    known: CodeName | None,
    given: str | None,
    close: Floats,
    place: tuple[float, float, float],
    seen: _Seen | None,
) -> CodeEntry:
    name = given or (known.name if known else UNNAMED)
    near = np.argsort(-close, kind="stable")[:3]
    flags = seen.flags(code, name) if seen else []
    if len(near) and close[near[0]] >= DUPLICATE:
        flags.append(Flag(name="duplicate", why=f"code {near[0]} lies in nearly the same direction"))
    return CodeEntry(
        code=code,
        name=name,
        level=known.level if known else None,
        confidence=known.confidence if known else None,
        chance=known.chance if known else None,
        color=code_color(code, name != UNNAMED),
        count=int(seen.counts[code]) if seen else None,
        use=float(seen.counts[code] / max(seen.counts.sum(), 1)) if seen else None,
        by_class=seen.classes[code].tolist() if seen else None,
        flags=flags,
        place=place,
        nearest=[NearCode(code=int(other), similarity=round(float(close[other]), 4)) for other in near],
        patches=_patches(code, seen.atlas) if seen else [],
    )


def _similarities(vectors: Floats) -> Floats:
    """Cosines (M, M); a code is not its own neighbor."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    found = unit @ unit.T
    np.fill_diagonal(found, -1)
    return np.asarray(found)


def _by_class(atlas: Atlas, codes: int, classes: int) -> Floats:
    """How the patches of each code are shared among classes, (M, C); rows sum to one, or to zero without patches."""
    assert atlas.codes is not None
    found = np.zeros((codes, classes))
    for row, label in zip(atlas.codes, atlas.labels, strict=True):
        held = [int(label)] if np.ndim(label) == 0 else np.flatnonzero(label == 1).tolist()
        for each in held:
            if each >= 0:
                found[:, each] += np.bincount(row, minlength=codes)
    total = found.sum(1, keepdims=True)
    return np.asarray(found / np.where(total > 0, total, 1))


def _patches(code: int, atlas: Atlas) -> list[PatchRef]:
    """The most typical patches, at most two of an image."""
    assert atlas.codes is not None
    images, cells = np.nonzero(atlas.codes == code)
    values = np.ones(len(images)) if atlas.similarity is None else atlas.similarity[images, cells]
    chosen: list[PatchRef] = []
    taken: dict[int, int] = {}
    for at in np.argsort(-values, kind="stable").tolist():
        image = int(images[at])
        if taken.get(image, 0) >= 2:
            continue
        taken[image] = taken.get(image, 0) + 1
        chosen.append(
            PatchRef(
                split=atlas.split, row=int(atlas.rows[image]), cell=int(cells[at]), value=round(float(values[at]), 4)
            )
        )
        if len(chosen) == EXAMPLES:
            break
    return chosen
