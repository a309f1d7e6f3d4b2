"""The images of a split as columns: one compact answer from which the page filters, colors and places 50,000 images.

The answer is a safetensors file, which a few lines of JavaScript read: numbers as typed arrays, names in its header.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from conceptlens.evaluation.subgroups.metadata import make_columns
from conceptlens.nn.heads.probabilities import class_probabilities, concept_probabilities_of
from conceptlens.runs.image_distribution import ImageDistribution
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import missing
from conceptlens.web.views.dataset.image_pass import SplitScores, read_scores
from conceptlens.web.views.dataset.sprites import ACROSS, SIDE

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ImageTable:
    """The N images of a split: what is true of them, and what the model says."""

    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64]  # (N,) class or −1; multi-label: (N, C) of 0, 1, −1
    concept_labels: npt.NDArray[np.int8]  # (N, K) of 0, 1, −1
    probs: Floats | None  # (N, C)
    concept_probs: Floats | None  # (N, K)
    vectors: npt.NDArray[np.float32] | None  # (N, D): the mean of an image's tokens; None: no pass was made
    groups: dict[str, tuple[list[str], npt.NDArray[np.int64]]]  # column of metadata → its words, and each image's

    def __len__(self) -> int:
        return len(self.ids)


def table_of(loaded: LoadedRun, split: Split) -> ImageTable:
    """All that is known of the images of a split; scores as training or a pass over the images kept them."""
    kept, scores = loaded.kept(split), read_scores(loaded, split)
    task, concepts = loaded.card.task, loaded.concepts
    logits, concept_logits = _scores(kept, scores)
    ids, labels, concept_labels, groups = _truth(loaded, split)
    if scores is not None and len(scores.logits) != len(ids):
        raise missing(f"{loaded.entry.shown}/page: of other images than those of {split}. Remove this folder.")
    return ImageTable(
        ids=ids,
        labels=labels,
        concept_labels=concept_labels[:, : len(concepts)],
        probs=None if logits is None else class_probabilities(np.nan_to_num(logits), task),
        concept_probs=None if concept_logits is None else concept_probabilities_of(concept_logits, concepts),
        vectors=None if scores is None else scores.vectors,
        groups=groups,
    )


def _scores(kept: Any, scores: SplitScores | None) -> tuple[Any, Any]:
    chosen = kept if kept is not None and len(kept.ids) else scores
    return (None, None) if chosen is None else (chosen.logits, chosen.concept_logits)


def _truth(loaded: LoadedRun, split: Split) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Names, labels and metadata: of the data, or as the predictions keep them where the data is gone."""
    kept = loaded.kept(split)
    try:
        examples, rows = loaded.source.examples, loaded.opened.splits[split]
    except Exception:
        if kept is None:
            raise
        return kept.ids, kept.labels, kept.concepts, {}
    metadata = {name: [words[row] for row in rows.tolist()] for name, words in examples.metadata.items()}
    columns = make_columns(metadata)[0]
    groups = {column.name: (list(column.groups), column.member) for column in columns}
    ids = tuple(examples.ids[row] for row in rows.tolist())
    return ids, examples.labels[rows], examples.concepts[rows], groups


def packed(loaded: LoadedRun, split: Split, table: ImageTable) -> bytes:
    """The table as a safetensors file. Probabilities of concepts are bytes: a point on a screen needs no more."""
    arrays: dict[str, npt.NDArray[Any]] = {"concept_labels": table.concept_labels.astype(np.int8)}
    multilabel = loaded.card.task == "multilabel"
    arrays["labels" if multilabel else "label"] = table.labels.astype(np.int8 if multilabel else np.int16)
    words: dict[str, Any] = {
        "split": split,
        "ids": table.ids,
        "classes": loaded.card.classes,
        "task": loaded.card.task,
        "concepts": loaded.concepts.names,
        "groups": [
            {"name": group.name, "kind": group.kind, "start": group.concepts.start, "values": list(group.values)}
            for group in loaded.concepts.groups
        ],
        "tokens": table.vectors is not None,
        "sprites": {"side": SIDE, "across": ACROSS},
        "columns": {name: names for name, (names, _) in table.groups.items()},
    }
    arrays |= {f"column.{name}": member.astype(np.int16) for name, (_, member) in table.groups.items()}
    if table.probs is not None:
        guess = table.probs.argmax(1) if table.probs.shape[1] else np.zeros(len(table), np.int64)
        arrays |= {"guess": guess.astype(np.int16), "confidence": table.probs.max(1).astype(np.float32)}
        arrays["right"] = _right(loaded, table)
        if multilabel:
            arrays["held"] = (table.probs >= np.asarray(loaded.card.thresholds)).astype(np.int8)
    if table.concept_probs is not None:
        arrays["concept_probs"] = np.nan_to_num(table.concept_probs * 255).round().astype(np.uint8)
    distribution = ImageDistribution.read(loaded.entry.path, loaded.card.weights_hash)
    if table.vectors is not None and distribution is not None:
        arrays["ood"] = distribution.scores(table.vectors).astype(np.float32)
        words["bound"] = distribution.bound
    header = {"table": json.dumps(words, ensure_ascii=False)}  # one entry: their order is not the same every time
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, header)


def _right(loaded: LoadedRun, table: ImageTable) -> npt.NDArray[np.int8]:
    """1 right, 0 wrong, −1 where no label is known, (N,)."""
    assert table.probs is not None
    if loaded.card.task != "multilabel":
        return np.where(table.labels < 0, -1, table.probs.argmax(1) == table.labels).astype(np.int8)
    known = table.labels >= 0
    wrong = (known & ((table.probs >= np.asarray(loaded.card.thresholds)) != (table.labels == 1))).any(1)
    return np.where(known.any(1), ~wrong, -1).astype(np.int8)
