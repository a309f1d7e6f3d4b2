"""`conceptlens data check`: what is wrong with the data, before anything is trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.spreadsheet import csv_text
from conceptlens.data.checks.findings import EXAMPLES, Finding, Level, Problems, counted
from conceptlens.data.checks.identity import identity_findings
from conceptlens.data.checks.images import Copies, copy_findings, find_copies, image_findings
from conceptlens.data.checks.labels import class_counts, class_findings, concept_findings
from conceptlens.data.checks.learnable import constant_findings, split_findings
from conceptlens.data.checks.masks import mask_findings
from conceptlens.data.checks.survey import survey_images
from conceptlens.data.dataset import SPLITS, DataSource
from conceptlens.data.sources.open import BUILTIN, open_source
from conceptlens.data.splits.splits import Splits, make_splits, torn_groups, torn_warning
from conceptlens.recipes.schema import DataConfig

_HEADINGS: dict[Level, str] = {"error": "Errors", "warning": "Warnings", "info": "Notes"}


@dataclass(frozen=True, repr=False)
class DataReport(ResultMixin):
    """What was found, the worst first."""

    source: str
    images: int
    classes: dict[str, int]  # name → images
    groups: int
    concepts: int
    splits: dict[str, int]  # side → images
    how: str  # whether the splits were given or drawn
    findings: tuple[Finding, ...]
    copies: tuple[tuple[str, ...], ...] = ()  # sets of images that are equal or nearly so
    pairs: tuple[tuple[str, str, str], ...] = ()  # every pair: image, image, `equal` or `near`

    @property
    def ok(self) -> bool:
        """Whether the data can be trained on."""
        return not any(finding.level == "error" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """Of the command: 2, bad input, if the data cannot be trained on."""
        return 0 if self.ok else 2

    @property
    def has_findings(self) -> bool:
        return any(finding.level != "info" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "ok": self.ok,
            "images": self.images,
            "classes": self.classes,
            "groups": self.groups,
            "concepts": self.concepts,
            "splits": {"how": self.how, **self.splits},
            "findings": [finding.to_json() for finding in self.findings],
            "copies": [list(members) for members in self.copies],
        }

    def text(self) -> str:
        """For people: what there is, errors, warnings, notes."""
        lines = [f"{self.source}: {counted(self.images, 'image')}"]
        if self.images:
            lines[0] += f", {counted(len(self.classes), 'class')}"
            lines[0] += f", {counted(self.concepts, 'concept')} in {counted(self.groups, 'group')}" * bool(
                self.concepts
            )
            lines.append(
                "  classes: " + ", ".join(f"{name} {count:,}" for name, count in list(self.classes.items())[:20])
            )
        if self.splits:
            lines.append(
                f"  split ({self.how}): " + ", ".join(f"{side} {count:,}" for side, count in self.splits.items())
            )
        for level, heading in _HEADINGS.items():
            found = [finding for finding in self.findings if finding.level == level]
            if found:
                lines += ["", heading]
            for finding in found:
                lines.append(f"  - {finding.message}")
                lines += [f"      {example}" for example in finding.examples if example not in finding.message]
        errors = sum(finding.level == "error" for finding in self.findings)
        verdict = (
            "The data is ready for training." if self.ok else f"{counted(errors, 'error')} to fix before training."
        )
        return "\n".join([*lines, "", verdict])


def check_data(
    config: DataConfig, concepts: ConceptSet | None, *, workers: int | None = None, quiet: bool = False
) -> DataReport:
    """Read all labels and look at every image once; nothing is changed and nothing is raised for bad data.

    Args:
        config: The data of a recipe.
        concepts: The concept set; built-in data brings its own if none is given, other data is checked without.
        workers: Threads that decode; as many as there are cores if not given.
        quiet: No progress bar.
    """
    problems = Problems(strict=False)
    if concepts is None and config.source not in BUILTIN:
        concepts = ConceptSet.none()
        problems.add(
            "info", "no-concepts", "No concept file was given: images and classes are checked, concepts are not."
        )
    try:
        source, concepts = open_source(config, concepts, problems)
    except UserError as error:
        # What else was noticed on the way is worth more than the last straw alone.
        problems.add("error", "cannot-open", str(error))
        return DataReport(config.source, 0, {}, 0, 0, {}, "", _sorted(problems.findings))

    findings = problems.findings
    findings += class_findings(source)
    findings += concept_findings(source, concepts)
    splits = _splits(source, config, findings)
    if splits is not None and not any(finding.code in ("no-labels", "one-class") for finding in findings):
        findings += split_findings(source, splits)
        findings += constant_findings(source, splits, concepts)
    side_of = np.full(len(source), "", dtype="<U5")
    for side in SPLITS:
        if splits is not None:
            side_of[splits[side]] = side
    survey = survey_images(source, workers=workers, quiet=quiet)
    findings += image_findings(source, survey)
    copies = find_copies(survey)
    findings += copy_findings(source, copies, side_of)
    findings += identity_findings(source)
    findings += mask_findings(source)
    return DataReport(
        source=config.source,
        images=len(source),
        classes=dict(zip(source.classes, class_counts(source).tolist(), strict=True)),
        groups=len(concepts.groups),
        concepts=len(concepts),
        splits={side: len(splits[side]) for side in SPLITS} if splits is not None else {},
        how=splits.how if splits is not None else "",
        findings=_sorted(findings),
        copies=tuple(tuple(source.examples.ids[index] for index in members) for members in copies.sets(len(source))),
        pairs=tuple(_pairs(copies, source.examples.ids)),
    )


def _pairs(copies: Copies, ids: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for same in copies.equal:
        yield from ((ids[same[0]], ids[other], "equal") for other in same[1:].tolist())
    yield from ((ids[a], ids[b], "near") for a, b in copies.near.tolist())


def copies_table(report: DataReport) -> str:
    """A CSV of every pair of copies, with the group of both: `image`, `copy`, `kind`, `group`."""
    group = {name: f"picture {number}" for number, members in enumerate(report.copies, 1) for name in members}
    rows = ([first, second, kind, group[first]] for first, second, kind in report.pairs)
    return csv_text([["image", "copy", "kind", "group"], *rows])


def _splits(source: DataSource, config: DataConfig, findings: list[Finding]) -> Splits | None:
    """The splits that training would use; what is wrong with them becomes findings."""
    try:
        chosen = replace(config.split, folds=config.folds, fold=0) if config.folds else config.split
        splits = make_splits(source.examples, chosen, source.task, classes=source.classes)
    except UserError as error:
        findings.append(Finding("error", "cannot-split", str(error)))
        return None
    torn = torn_groups(source.examples, splits)
    if torn:
        findings.append(Finding("error", "groups-across-splits", torn_warning(torn), len(torn), tuple(torn[:EXAMPLES])))
    thin = [warning for warning in splits.warnings if not torn or warning != torn_warning(torn)]
    findings += [Finding("warning", "thin-splits", warning) for warning in thin]
    return splits


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    order = list(_HEADINGS)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.level)))
