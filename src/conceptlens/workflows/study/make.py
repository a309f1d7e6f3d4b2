"""`conceptlens study make RUN`: a blinded study of a run's maps, after appendix J.1 of the IVQ-CBM paper.

Two questions about each image, with a control that the paper does not have: some maps are shuffled, and nobody who sees
the page can tell which.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import fingerprint, write_text
from conceptlens.data.dataset import SPLITS
from conceptlens.encoders import TEXT, make_text_encoder
from conceptlens.explanations.explain import choose_concepts
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.study.cases import MapKind, find_cases
from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.power import Plan, images_needed, power_of
from conceptlens.workflows.study.rendering import render
from conceptlens.workflows.study.sampling import draw_images
from conceptlens.workflows.study.shuffle import CONTROLS, Control
from conceptlens.workflows.study.trials import build

KIND = "study"
PAGE, KEY = "study.html", "key.json"
MAPS = ("auto", "evidence", "attention", "gradcam")


@dataclass(frozen=True, repr=False)
class Pack(ResultMixin):
    """Where the pack is."""

    folder: Path
    key: Key

    def to_dict(self) -> dict[str, Any]:
        """Without the key: what raters must not see stays in its file."""
        counts = {"images": self.key.images, "catch": self.key.catch, "trials": len(self.key.trials)}
        return {"folder": str(self.folder), "study": self.key.study, **counts, "power": self.key.reached}

    def text(self) -> str:
        key, size = self.key, (self.folder / PAGE).stat().st_size
        return "\n".join(
            (
                f"study {key.study}: {key.images} images with their own maps and {key.catch} with shuffled ones, "
                f"{len(key.trials)} questions a rater",
                key.power.text,
                f"This study finds that difference with power {key.reached:.0%}.",
                f"for raters: {self.folder / PAGE} ({size / 1e6:.1f} MB, one file, works offline)",
                f"for you alone: {self.folder / KEY}. Then: conceptlens study analyze {self.folder} RESPONSES…",
            )
        )


def make_study(
    run: str | Path | OpenedRun,
    out: str | Path | None = None,
    *,
    n: int | None = None,
    catch_share: float = 0.2,
    options: int = 5,
    attention: int = 4,
    control: str = "moved",
    map: str = "auto",
    concepts: Sequence[str] | None = None,
    split: str = "test",
    side: int = 384,
    seed: int = 0,
    plan: Plan | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Pack:
    """Make a study pack.

    Args:
        run: A finished run.
        out: Folder for the pack; `study/` in the run folder by default.
        n: Images in all, shuffled ones among them; by default as many as the power calculation asks for.
        catch_share: Of images whose map is shuffled.
        options: Answers to choose from, the right one among them.
        attention: Checks of attention.
        control: How maps are shuffled: `moved`, `patches` or `other`.
        map: `evidence`, `attention`, `gradcam`, or `auto`: the method's own, evidence before attention, if it has one.
        concepts: Ask about these only: concepts, groups, or `all`; by default all that can be pointed at.
        split: Of the run's own data.
        side: Largest side of the pictures in pixels.
        seed: Of every random choice.
        plan: What the study should be able to show.
        note: Told of progress.
    """
    for kind, given, known in (("split", split, SPLITS), ("control", control, CONTROLS), ("map", map, MAPS)):
        if given not in known:
            raise unknown_name(kind, given, known)
    if not 2 <= options <= 9:
        raise UserError(f"--options: expected 2 to 9 answers, found {options}; each has a key of its own.")
    if not 64 <= side <= 1024:
        raise UserError(f"--side: expected 64 to 1024 pixels, found {side}.")
    power = images_needed(plan or Plan(), catch_share)
    total = power.images + power.catch if n is None else n
    if total < 10:
        raise UserError(f"--n: expected at least 10 images, found {total}.")
    opened = OpenedRun.open(run)
    opened.need_concepts("it has no maps of them")
    vocabulary = opened.concepts
    placed = [k for k in range(len(vocabulary)) if not vocabulary.placeless[k]]
    wanted = placed if concepts is None else [k for k in choose_concepts(vocabulary, concepts) if k in placed]
    if not wanted:
        raise UserError("No concept can be pointed at. Name some with --concepts.")
    target = Path(out) if out else opened.path / "study"
    if (target / "run.json").exists() and RunFolder(target).info.get("kind") != KIND:
        raise UserError(f"{target}: this folder holds another result; choose another one with --out.")
    target = opened.out_folder(out, "study")
    generator = np.random.default_rng(seed)
    labels = opened.source.examples.labels
    strata = labels if labels.ndim == 1 else np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    pool = opened.splits[split]
    # More than are needed: an image of which the model asserts nothing that can be pointed at is passed over.
    order = pool[draw_images(strata[pool], len(pool), generator)]
    model = opened.pipeline.model
    own: MapKind = "evidence" if model.has_evidence else "attention" if model.has_attention else "gradcam"
    used: MapKind = own if map == "auto" else map  # type: ignore[assignment]
    note(f"looking for {total} images among {len(pool)}")
    cases = find_cases(opened, order, total, wanted=wanted, kind=used, side=side, generator=generator)
    if len(cases) < total:
        raise UserError(
            f"{opened.path}: {len(cases)} images of {split} show a concept that can be pointed at, {total} were asked "
            f"for. Ask for fewer with --n, or for another --split."
        )
    catch = max(1, round(catch_share * total))
    vectors = make_text_encoder(TEXT).embed(vocabulary.texts).double().numpy()
    chosen: Control = control  # type: ignore[assignment]
    page, keys = build(
        cases,
        catch,
        vocabulary,
        vectors,
        control=chosen,
        options=options,
        attention=attention,
        generator=generator,
        wanted=placed,
    )
    study = fingerprint(opened.card.weights_hash, str(seed), json.dumps(page["trials"]), json.dumps(page["maps"]))
    key = Key(
        study=study,
        run=opened.name,
        data=opened.info["data"]["name"],
        method=opened.info["method"],
        weights=opened.card.weights_hash,
        split=split,
        map=used,
        control=chosen,
        seed=seed,
        images=total - catch,
        catch=catch,
        power=power,
        reached=power_of(power.plan, total - catch, catch),
        trials=keys,
    )
    # The key first: a page without its key would be worthless, and answers to it lost.
    key.write(target / KEY)
    write_text(target / PAGE, render({"study": study, **page}))
    RunFolder(target).update(
        id=target.resolve().name,
        kind=KIND,
        status="done",
        method=key.method,
        data={"name": key.data},
        study=study,
        run=key.run,
        images=key.images,
        catch=key.catch,
        questions=len(keys),
    )
    return Pack(target, key)
