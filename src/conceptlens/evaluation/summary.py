"""What predictions are worth: the numbers of `metrics.json`, and the lines a person reads at the end of a run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_json
from conceptlens.core.manifest import has_manifest
from conceptlens.core.registry import METRICS
from conceptlens.data.dataset import DataSource
from conceptlens.data.splits.splits import Splits
from conceptlens.evaluation.classification.classification import choose_thresholds, class_metrics
from conceptlens.evaluation.concepts.ceiling import label_to_class_ceiling
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.evaluation.concepts.groups import concept_priors
from conceptlens.evaluation.intervals import metric_intervals
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.recipes import MetricsConfig
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.folds import FOLDS
from conceptlens.runs.predict import Predictions
from conceptlens.runs.predictions import units_of

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Floats = npt.NDArray[np.float64]


def thresholds_from(validation: Predictions, source: DataSource) -> list[float]:
    """Each class's threshold, chosen on validation."""
    labels = source.examples.labels[validation.indices]
    return choose_thresholds(class_probabilities(validation.logits, source.task), labels, source.task)


def _inside(predictions: Predictions) -> dict[str, Any]:
    """Rank, codebook and slots: what goes on inside the model."""
    inside: dict[str, Any] = {}
    if predictions.ranks:
        inside["rank"] = predictions.ranks
    if predictions.codebook is not None:
        inside["codebook"] = predictions.codebook
    if predictions.slots is not None:
        inside["slots"] = predictions.slots
    return inside


def _concepts(
    predictions: Predictions, source: DataSource, concepts: ConceptSet, priors: Floats, **options: int
) -> dict[str, Any]:
    """The section on concepts; none for a method that reads none."""
    if not predictions.concept_logits.shape[1]:
        return {}
    labels, truth = (part[predictions.indices] for part in (source.examples.labels, source.examples.concepts))
    logits = predictions.concept_logits
    return {"concept": concept_metrics(logits, truth, concepts, class_labels=labels, priors=priors, **options)}


def _own(config: MetricsConfig, shares: Floats, labels: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The section of registered measures; none where the recipe names none."""
    known = (labels >= 0) if labels.ndim == 1 else (labels >= 0).any(1)
    own = {name: METRICS.get(name)(shares[known], labels[known]) for name in config.own}
    for name, value in own.items():
        if not isinstance(value, int | float | np.number):
            raise UserError(f"metrics.own: {name} must return a number, found {type(value).__name__}.")
    return {"own": {name: float(v) if np.isfinite(v) else None for name, v in own.items()}} if own else {}


def quick_summary(
    predictions: Predictions,
    source: DataSource,
    concepts: ConceptSet,
    splits: Splits,
    config: MetricsConfig | None = None,
) -> dict[str, Any]:
    """For each validation during training: no intervals, no thresholds."""
    labels = source.examples.labels[predictions.indices]
    priors = concept_priors(source.examples.concepts[splits.train], concepts)
    shares = class_probabilities(predictions.logits, source.task)
    return {
        "class": class_metrics(shares, labels, source.task),
        **_own(config or MetricsConfig(), shares, labels),
        **_concepts(predictions, source, concepts, priors),
        **_inside(predictions),
    }


def full_summary(
    predictions: Predictions,
    source: DataSource,
    concepts: ConceptSet,
    splits: Splits | None,
    config: MetricsConfig,
    *,
    thresholds: Sequence[float],
    priors: Floats,
) -> dict[str, Any]:
    """Everything `metrics.json` holds of one split."""
    examples, chosen = source.examples, predictions.indices
    labels, truth = examples.labels[chosen], examples.concepts[chosen]
    shares = class_probabilities(predictions.logits, source.task)
    summary: dict[str, Any] = {
        "class": class_metrics(shares, labels, source.task, thresholds, names=source.classes, bins=config.bins),
        **_own(config, shares, labels),
        **_concepts(predictions, source, concepts, priors, bins=config.bins),
        **_inside(predictions),
    }
    if splits is not None:
        summary["ceiling"] = label_to_class_ceiling(
            examples.concepts[splits.train], examples.labels[splits.train], truth, labels, units_of(source, chosen)
        )
    if config.bootstrap:
        groups = None if examples.group is None else units_of(source, chosen)
        summary["intervals"] = metric_intervals(
            shares,
            labels,
            predictions.concept_logits,
            truth,
            concepts,
            groups,
            config,
            task=source.task,
            thresholds=thresholds,
        )
    return summary


def value_at(summary: Mapping[str, Any], path: str, key: str) -> float:
    """The number at a dotted path, such as `class.balanced_accuracy`; `key` names who asked."""
    node: Any = summary
    for step in path.split("."):
        if not isinstance(node, Mapping) or step not in node:
            raise unknown_name(f"metric in {key}", path, _paths(summary))
        node = node[step]
    if node is None or isinstance(node, (bool, Mapping, list)):
        raise unknown_name(f"metric in {key} (it has no value on these validation images)", path, _paths(summary))
    return float(node)


def standing(summary: Mapping[str, Any], select: str) -> tuple[float, float]:
    """How good a model is by `training.select`, and by what decides between equals; larger is better.

    Where the class is easy many models are equal in it, and chance would choose the concepts: there these decide. In a
    stage that leaves concepts alone all its epochs are equal in them: there the class decides.
    """
    sign, path = (-1.0, select[1:]) if select.startswith("-") else (1.0, select)
    section, key = ("concept", "auc") if path.startswith("class.") else ("class", "balanced_accuracy")
    return sign * value_at(summary, path, "training.select"), summary.get(section, {}).get(key) or 0.0


def _paths(node: Mapping[str, Any], prefix: str = "") -> list[str]:
    paths: list[str] = []
    for key, value in node.items():
        if isinstance(value, Mapping):
            paths += _paths(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            paths.append(f"{prefix}{key}")
    return paths


_LINES = (
    ("class accuracy", "class.accuracy"),
    ("class balanced accuracy", "class.balanced_accuracy"),
    ("class AUC (macro)", "class.macro_auc"),
    ("quadratic weighted kappa", "class.quadratic_weighted_kappa"),
    ("concept accuracy", "concept.accuracy"),
    ("concept balanced accuracy", "concept.balanced_accuracy"),
    ("  after prior correction", "concept.balanced_accuracy_prior_corrected"),
    ("concept AUC", "concept.auc"),
    ("  within class", "concept.auc_within_class"),
    ("rank of patches (published)", "rank.published"),
    ("rank of patches (effective)", "rank.effective"),
    ("codes in use", "codebook.use"),
    ("assignment entropy / max", "slots.assignment_entropy"),
)


def metric_table(metrics: Mapping[str, Any]) -> list[TableRow]:
    """The main numbers with their intervals, a row each."""
    rows: list[TableRow] = []
    for label, path in _LINES:
        node: Any = metrics
        for step in path.split("."):
            node = node.get(step) if isinstance(node, Mapping) else None
        if node is not None:
            low, high = metrics.get("intervals", {}).get(path) or (None, None)
            rows.append({"metric": path, "name": label, "value": node, "low": low, "high": high})
    return rows


def text_table(metrics: Mapping[str, Any]) -> str:
    """The main numbers with their intervals, a line each."""
    lines = []
    for row in metric_table(metrics):
        label, value = row["name"], float(row["value"] or 0)
        spread = "" if row["low"] is None else f"   {row['low']:.3f} to {row['high']:.3f}"
        lines.append(f"  {label:30}{value:8.3f}{spread}" if value < 10 else f"  {label:30}{value:8.1f}")
    if "concept" in metrics:
        if at_chance := metrics["concept"].get("groups_at_chance"):  # not of folds that read different concepts
            lines.append(f"  groups at chance                 {', '.join(at_chance['names']) or 'none'}")
    else:
        lines.append("  concepts                      none are read by this method")
    for label, section, key in (("dead codes", "codebook", "dead"), ("empty slots", "slots", "empty_slots")):
        if metrics.get(section, {}).get(key):
            lines.append(f"  {label:30}{len(metrics[section][key]):8d}")
    return "\n".join(lines)


def run_text(run: "RunFolder | OpenedRun") -> str:
    """The result of a finished run, and where to look."""
    splits, info = read_json(run.path / "metrics.json")["splits"], run.info
    split, spoken = next(
        (
            each
            for each in ((FOLDS, "cross-validated"), ("test", "test"))
            if splits.get(each[0], {}).get("class", {}).get("n")
        ),
        ("test", "test") if "test" in splits else ("val", "validation"),
    )
    metrics = splits[split]
    head = f"{info['method']} on {info['data']['name']}: {metrics['class'].get('n', 0)} {spoken} images"
    places = f"look at {run.path / 'report.html'}; all numbers are in {run.path / 'metrics.json'}"
    warnings = [f"warning: {warning}" for warning in info.get("warnings") or []]
    if not has_manifest(run.path):
        warnings.append("unverified: this run has no manifest, and a changed file is not noticed")
    return "\n".join((head, text_table(metrics), *warnings, places))
