"""What the `conceptlens codebook` commands do with a study: measure, write JSON and pictures, say it in words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import write_bytes, write_json
from conceptlens.cortex.editing.edit import edit_image, strip
from conceptlens.cortex.editing.pairs import judge_pairs
from conceptlens.cortex.editing.region import parse_region
from conceptlens.cortex.editing.search import search_tokens
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.importance import VARIANTS, SmoothGrad, token_importance
from conceptlens.cortex.grids import write_grids
from conceptlens.cortex.judges import Judges, open_judges
from conceptlens.cortex.masking import (
    COUNTS,
    equal_positions,
    mask_sets,
    masking_curve,
    random_positions,
    set_positions,
)
from conceptlens.cortex.pictures import boxed, masking_figure, path_figure, sheet
from conceptlens.cortex.samples import Samples
from conceptlens.cortex.study import Study
from conceptlens.cortex.token_sets import TokenSet, concept_set, frequency_set, top_positions
from conceptlens.data.images.read import open_image, resize_square


@dataclass(frozen=True, repr=False)
class Result(ResultMixin):
    """A summary in words, the values, and the files that hold them."""

    words: str
    data: dict[str, Any]
    files: tuple[Path, ...]

    def text(self) -> str:
        return "\n".join([self.words, "written: " + ", ".join(map(str, self.files))])

    def to_dict(self) -> dict[str, Any]:
        return self.data

    def _pictures(self) -> Sequence[bytes]:
        return [file.read_bytes() for file in self.files if file.suffix == ".png"]


def write_result(folder: Path, name: str, words: str, data: dict[str, Any], pictures: Mapping[str, bytes]) -> Result:
    """NAME.json and pictures beside it."""
    path = folder / f"{name}.json"
    write_json(path, data)
    files = [path]
    for suffix, picture in pictures.items():
        files.append(folder / f"{name}{suffix}.png")
        write_bytes(files[-1], picture)
    return Result(words, data, tuple(files))


def _variant(name: str, samples: int, alpha: float) -> SmoothGrad:
    if name not in VARIANTS:
        raise unknown_name("variant of token importance", name, VARIANTS)
    return replace(VARIANTS[name], samples=samples, alpha=alpha)


def score_samples(study: Study, samples: Samples, settings: SmoothGrad, *, seed: int = 0, batch: int = 64) -> Tensor:
    """Importance (N, h, w) of every token to its sample's own concept, on the CPU."""
    parts = []
    for start in range(0, len(samples), batch):
        tokens = samples.tokens[start : start + batch].long()
        labels = samples.labels[start : start + batch].to(study.device)
        scores = token_importance(study.extractor, study.embed(tokens), labels, settings, seed=seed, first=start)
        parts.append(scores.cpu())
    return torch.cat(parts)


def sample_sets(study: Study, samples: Samples, scores: Tensor, n: int, k: int) -> list[TokenSet]:
    """T*_concept of every concept of the samples."""
    codes = len(study.codebook)
    sets = []
    for place, concept in enumerate(samples.concepts):
        mine = samples.labels == place
        sets.append(concept_set(samples.tokens[mine].long(), scores[mine], concept, codes=codes, n=n, k=k))
    return sets


def tokens_result(
    study: Study,
    *,
    n: int = 20,
    k: int = 100,
    variant: str = "paper",
    samples: int = 20,
    alpha: float = 0.2,
    limit: int = 200,
    show: int = 4,
    seed: int = 0,
    out: str | Path | None = None,
) -> Result:
    """Eq. 3 to 5: the tokens of every concept, and images with their most important tokens framed.

    `show` test samples of each concept are written as token grids with their importance, for the page.
    """
    folder = study.folder(out)
    settings = _variant(variant, samples, alpha)
    train = first_of_each(study.samples["train"], limit)
    scores = score_samples(study, train, settings, seed=seed)
    sets = sample_sets(study, train, scores, n, k)
    frequent = [
        frequency_set(train.tokens[train.labels == place].long(), name, codes=len(study.codebook), k=k)
        for place, name in enumerate(train.concepts)
    ]
    overlap = [len(set(a.tokens) & set(b.tokens)) for a, b in zip(sets, frequent, strict=True)]
    lines = [
        f"{entry.concept}: {', '.join(map(str, entry.tokens[:10]))}{' …' if len(entry.tokens) > 10 else ''} "
        f"({shared} of {len(entry.tokens)} are also among the most frequent)"
        for entry, shared in zip(sets, overlap, strict=True)
    ]
    data = {
        "variant": variant,
        "settings": asdict(settings),
        "images": len(train),
        "sets": [asdict(entry) for entry in sets],
        "frequent": [asdict(entry) for entry in frequent],
    }
    pictures = {}
    if study.model.decodes:
        rows = []
        for place, name in enumerate(train.concepts):
            mine = (train.labels == place).nonzero()[:6, 0]
            images = study.decode(train.tokens[mine].long())
            marked = torch.zeros(len(mine), scores[0].numel(), dtype=torch.bool)
            marked.scatter_(1, top_positions(scores[mine], min(n, 10)), True)
            cells = study.model.places(marked.view(len(mine), *scores.shape[1:]))
            rows.append((name, boxed(images, cells)))
        pictures[""] = sheet(rows)
    files = write_grids(study, folder, settings, variant=variant, per_concept=show, seed=seed)
    result = write_result(folder, "tokens", "\n".join(lines), data, pictures)
    return replace(result, files=(*result.files, *files))


def first_of_each(samples: Samples, limit: int) -> Samples:
    """At most so many samples of each concept."""
    return samples.take(first_rows(samples, limit))


def first_rows(samples: Samples, limit: int) -> Tensor:
    """Where the first samples of each concept are, (n,)."""
    return torch.cat([(samples.labels == place).nonzero()[:limit, 0] for place in range(len(samples.concepts))])


def search_result(
    study: Study,
    concept: str,
    *,
    region: str = "all",
    sample: int | None = None,
    images: int = 4,
    settings: SearchSettings | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Result:
    """Eq. 6 to 8: token combinations that make a concept, from nothing or within a sample of the test split."""
    folder = study.folder(out)
    place = study.extractor.concept(concept)
    mask = parse_region(region, study.extractor.card.grid)
    start = None if sample is None else _sample(study, sample)[None].expand(images, -1, -1)
    if start is None and not bool(mask.all()):
        raise UserError("--region needs tokens to keep outside of it: name one with --sample, or leave the region out.")
    wanted = torch.full((images,), place)
    search = search_tokens(study.extractor, study.codebook, wanted, mask, tokens=start, settings=settings, seed=seed)
    counts = torch.bincount(search.selected.flatten(), minlength=len(study.codebook))
    order = counts.argsort(descending=True, stable=True)[:20]
    tokens = [{"token": int(token), "count": int(counts[token])} for token in order if counts[token]]
    words = (
        f"{concept}: {float(search.start.mean()):.3f} → {float(search.end.mean()):.3f} by the extractor, mean of "
        f"{images} searches; most chosen tokens: {', '.join(str(entry['token']) for entry in tokens[:10])}"
    )
    data = {
        "concept": concept,
        "region": search.mask.nonzero().tolist(),
        "settings": asdict(settings or SearchSettings()),
        "start": search.start.tolist(),
        "end": search.end.tolist(),
        "steps": list(search.steps),
        "path": search.path.tolist(),
        "tokens": search.tokens.tolist(),
        "chosen": tokens,
    }
    pictures = {"-path": path_figure(search.steps, search.path, concept)}
    if study.model.decodes:
        pictures[""] = sheet([("before", study.decode(search.before)), (concept, study.decode(search.tokens))])
    return write_result(folder, "search", words, data, pictures)


def _sample(study: Study, index: int) -> Tensor:
    test = study.samples["test"]
    if not 0 <= index < len(test):
        raise UserError(f"--sample {index}: the test split has samples 0 to {len(test) - 1}.")
    return test.tokens[index].long()


def edit_result(
    study: Study,
    target: str,
    region: str,
    *,
    image: str | Path | None = None,
    sample: int | None = None,
    method: str = "tokens",
    settings: SearchSettings | None = None,
    judges: Judges = (),
    seed: int = 0,
    out: str | Path | None = None,
) -> Result:
    """Section 5.2: an image file or a sample of the test split, edited within a region; a strip as Figure 5."""
    if (image is None) == (sample is None):
        raise UserError("Name what shall be edited: an image file, or a sample of the test split with --sample N.")
    folder = study.folder(out)
    if image is not None:
        picture = resize_square(open_image(Path(image), name=str(image)), study.model.image_size)
        pixels = torch.from_numpy(picture)[None].to(study.device).float().div_(255)
        tokens = study.model.encode(pixels)[0].cpu()
    else:
        assert sample is not None
        tokens = _sample(study, sample)
    mask = parse_region(region, study.extractor.card.grid)
    edit = edit_image(study.model, study.extractor, tokens, mask, target, method=method, settings=settings, seed=seed)
    data, words, pictures = edit.to_json(), edit.text(), {}
    if study.model.decodes:
        frames = strip(study.model, edit).cpu()
        region_row = boxed(frames[:1], study.model.places(edit.found.mask[None]))
        pictures[""] = sheet([(f"towards {target}: before, along the way, after", frames), ("region", region_row)])
        for path, judge in open_judges(judges, study.extractor.card.concepts).items():
            before, after = judge(frames[:1])[0], judge(frames[-1:])[0]
            place = study.extractor.concept(target)
            data.setdefault("judges", []).append(
                {"judge": path, "before": float(before[place]), "after": float(after[place])}
            )
            words += f"\n{path}: {float(before[place]):.3f} → {float(after[place]):.3f}"
    pictures["-path"] = path_figure(edit.found.steps, edit.found.path, f"towards {target}")
    return write_result(folder, "edit", words, data, pictures)


def mask_result(
    study: Study,
    judges: Judges,
    *,
    counts: Sequence[int] = COUNTS,
    n: int = 20,
    k: int = 100,
    variant: str = "paper",
    fill: str = "black",
    hide: str = "positions",
    limit: int = 50,
    training_limit: int = 200,
    seed: int = 0,
    out: str | Path | None = None,
) -> Result:
    """Figure 4 and Table 2: important, frequent and random tokens hidden from independent judges.

    A model without a decoder has its pixels hidden in the images that were encoded.
    """
    folder = study.folder(out)
    if not judges:
        raise UserError("Hidden tokens are judged by independent classifiers: name run folders with --judge.")
    shown = first_rows(study.samples["test"], limit)
    images = study.pictures("test", shown.tolist())
    if images is None:
        raise UserError(
            f"{study.model.name} has no decoder, and the images that were encoded are not there any more or have "
            "changed: there is nothing to show to judges. Put the data back where the study found it."
        )
    named = open_judges(judges, study.extractor.card.concepts)
    settings = _variant(variant, 20, 0.2)
    train = first_of_each(study.samples["train"], training_limit)
    test = study.samples["test"].take(shown)
    tokens, labels, places = test.tokens.long(), test.labels, study.model.places
    scores = score_samples(study, test, settings, seed=seed)
    curves = []
    for order, values in (
        ("importance", scores),
        ("random", torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed))),
    ):
        curves += masking_curve(
            named, images, tokens, values, labels, order=order, counts=counts, fill=fill, hide=hide, places=places
        )
    codes, grid = len(study.codebook), study.extractor.card.grid
    sets = sample_sets(study, train, score_samples(study, train, settings, seed=seed), n, k)
    frequent = [frequency_set(train.of(place), name, codes=codes, k=k) for place, name in enumerate(train.concepts)]
    chosen = set_positions(tokens, labels, sets, codes)
    equal = chosen.flatten(1).sum(1)
    positions = {
        "concept sets": chosen,
        "frequency": set_positions(tokens, labels, frequent, codes),
        "frequency, equally many": equal_positions(tokens, labels, frequent, codes, equal, seed),
        "random, equally many": random_positions(equal, grid, seed),
    }
    table = mask_sets(named, images, labels, positions, fill=fill, places=places)
    lines = [
        f"{row.judge}: {row.tokens} hide {row.hidden:.1f} tokens: accuracy {row.accuracy:.3f} "
        f"{row.accuracy_change:+.3f}, probability {row.probability:.3f} {row.probability_change:+.3f}"
        for row in table
    ]
    data = {
        "fill": fill,
        "hide": hide,
        "variant": variant,
        "images": len(images),
        "training_samples": len(train.tokens),
        "codebook_share": k / codes,
        "curves": [asdict(curve) for curve in curves],
        "sets": [asdict(row) for row in table],
    }
    return write_result(folder, "masking", "\n".join(lines), data, {"": masking_figure(curves)})


def pairs_result(
    study: Study,
    pairs: Sequence[tuple[str, str]],
    judges: Judges,
    *,
    region: str = "center 4x4",
    images: int = 50,
    settings: SearchSettings | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Result:
    """Table 5: ΔP of original and target concept, by token selection and by the embedding baseline."""
    if not judges:
        raise UserError("Edits are judged by independent classifiers: name run folders with --judge.")
    folder = study.folder(out)
    concepts = study.extractor.card.concepts
    for name in {concept for pair in pairs for concept in pair}:
        study.extractor.concept(name)
    chosen = pairs or list(zip(concepts[::2], concepts[1::2], strict=False))
    models = open_judges(judges, concepts, device=study.device)
    mask = parse_region(region, study.extractor.card.grid)
    rows = judge_pairs(
        study.model,
        study.extractor,
        study.samples["test"],
        chosen,
        mask,
        models,
        images=images,
        settings=settings,
        seed=seed,
    )
    lines = [
        f"{row.judge}, {row.method}: original {row.original:.3f} {row.original_change:+.3f}, target {row.target:.3f} "
        f"{row.target_change:+.3f} ({row.images} images)"
        for row in rows
    ]
    data = {
        "pairs": [list(pair) for pair in chosen],
        "region": mask.nonzero().tolist(),
        "rows": [asdict(row) for row in rows],
    }
    return write_result(folder, "pairs", "\n".join(lines), data, {})
