"""Accuracy at a small number of effective concepts (NEC): a bottleneck that needs many may be used as a wide pipe.

`pruned`: the model's own head with the five weightiest concepts of each class kept and the others at their average, the
IVQ-CBM paper's Table 8. `sparse path`: a sparse head fitted anew on the scores at NEC 5, 10, … 30, and the mean of
their accuracies, as VLG-CBM (Srivastava, Yan and Weng, 2024).
"""

import numpy as np
import torch

from conceptlens.core.documents import Part
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import sides

PRUNED = 5


class Effective(Part):
    """Accuracy against effective concepts."""

    full: Estimate
    pruned: Estimate | None  # None: the head is not linear, or there are no more than five concepts
    drop: Estimate | None  # pruned − full
    path: dict[str, Estimate]  # NEC → accuracy of a sparse head fitted anew
    mean: Estimate | None  # over the path
    why: str | None = None  # what is missing, and why


def pruned_hits(readout: Readout, keep: int = PRUNED) -> Floats | None:
    """Hits (N,) of the head with `keep` concepts for each class; None where there is nothing to prune.

    A weight matters as much as it moves the logit: its size times the score's standard deviation.
    """
    from conceptlens.nn.sparse_head import SparseHead

    head = readout.head
    if head is None or keep >= readout.bottleneck.shape[1]:
        return None
    spread, mean = (torch.from_numpy(part) for part in (readout.bottleneck.std(0), readout.bottleneck.mean(0)))
    whole = SparseHead(torch.from_numpy(head.weight), torch.from_numpy(head.bias), 0.0, 0.0, 0.0, mean, spread)
    said = whole.prune(keep, per="class").logits(torch.from_numpy(readout.bottleneck)).numpy()
    return readout.hits(said + readout.rest)


def path_hits(scores: Floats, labels: Indices, classes: int, fold: Indices, wanted: list[int]) -> dict[int, Floats]:
    """Hits (N,) at each NEC of sparse heads that were fitted on the other folds; NaN where nobody knows the class."""
    from conceptlens.nn.sparse_head import fit_path

    found = {value: np.full(len(labels), np.nan) for value in wanted}
    for learn, ask in sides(fold):
        known, asked = learn[labels[learn] >= 0], ask[labels[ask] >= 0]
        path = fit_path(
            scores[known],
            torch.from_numpy(labels[known]),
            classes,
            steps=30,
            ratio=3e-3,
            until_nec=max(wanted),
            tolerance=1e-2,  # of the objective; accuracies do not notice
        )
        for value in wanted:
            head = path.at_nec(value, or_fewer=True)
            said = head.logits(torch.from_numpy(scores[asked])).argmax(-1).numpy()
            found[value][asked] = said == labels[asked]
    return found


def effective(readout: Readout, fold: Indices, bootstrap: Bootstrap) -> Effective:
    """Table 8, and the sparse path."""
    from conceptlens.nn.sparse_head.nec import WANTED

    columns = {"full": readout.hits(readout.logits(readout.bottleneck))}
    missing = []
    pruned = pruned_hits(readout)
    if pruned is not None:
        columns |= {"pruned": pruned, "drop": pruned - columns["full"]}
    else:
        missing.append("no pruning: the head is not linear" if readout.head is None else "no more than five concepts")
    wanted = [value for value in WANTED if value <= readout.bottleneck.shape[1]]
    if readout.task == "multilabel" or not wanted:
        missing.append("no sparse path: it decides between classes that exclude each other, with five concepts or more")
    else:
        hits = path_hits(readout.bottleneck, readout.labels, len(readout.classes), fold, wanted)
        columns |= {str(value): hit for value, hit in hits.items()}
        columns["mean"] = np.mean(list(hits.values()), axis=0)
    found = bootstrap.means(columns)
    return Effective(
        full=found["full"],
        pruned=found.get("pruned"),
        drop=found.get("drop"),
        path={str(value): found[str(value)] for value in wanted if str(value) in found},
        mean=found.get("mean"),
        why="; ".join(missing) or None,
    )
