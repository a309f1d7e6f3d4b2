"""Every result that a folder can hold: its file, the command that makes it, the view that shows it.

The server, shared pages and documentation read this table. A metric of your own joins it with `register_result`: its
JSON file is then listed on the run's card, served among the documents, and shown in the trust view.
"""

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from conceptlens.core.documents import Document
from conceptlens.core.errors import UserError

Kind = Literal["bottleneck", "decomposition", "codebook", "comparison", "study"]


EARLIER_NAMES = {"localisation.json": "localization.json"}  # what files were called in version 0.1


@dataclass(frozen=True)
class Result:
    """One result of one kind of folder.

    Attributes:
        name: As programs call it, such as `leakage`.
        file: Its place in the folder; with a `*`, one of several files.
        about: One sentence.
        command: What makes it, behind `conceptlens`; `{}` is the folder. None: the folder comes with it.
        view: The view of the web page that shows it, if one does.
        document: `module:Class` of the `Document` that reads and writes it, if there is one.
        kind: Of the folder.
    """

    name: str
    file: str
    about: str
    command: str | None = None
    view: str | None = None
    document: str | None = None
    kind: Kind = "bottleneck"

    def find(self, folder: Path) -> Path | None:
        """The file in a folder, also under the name that an earlier version gave it; None if it is not there."""
        names = (self.file, *(old for old, new in EARLIER_NAMES.items() if new == self.file))
        return next((folder / name for name in names if (folder / name).is_file()), None)

    @property
    def single(self) -> bool:
        """Whether a folder has one such file at most."""
        return "*" not in self.file

    @property
    def served(self) -> bool:
        """Whether the server hands out the file as a document of the run."""
        return self.single and self.kind == "bottleneck" and self.view is not None and self.file.endswith(".json")

    def load_class(self) -> type[Document]:
        """The class that reads the file."""
        if self.document is None:
            raise UserError(f"{self.name}: no class is declared for {self.file}; read it as plain JSON.")
        module, _, name = self.document.partition(":")
        loaded: type[Document] = getattr(import_module(module), name)
        return loaded


_EVALUATION, _WORKFLOWS = "conceptlens.evaluation", "conceptlens.workflows"
BUILT_IN = (
    Result("history", "history.jsonl", "One line an epoch: losses and validation metrics.", view="training"),
    Result("metrics", "metrics.json", "Metrics on validation and test.", "resume {}", "training"),
    Result("model", "model/model.json", "The card of the weights: classes, image size, thresholds.", "resume {}"),
    Result("predictions", "predictions/test.safetensors", "Scores and labels of each test image."),
    Result("report", "report.html", "The page of the run.", "report {}"),
    Result(
        "trust",
        "trust/trust.json",
        "What every examination found, and what it rests on.",
        "trust {}",
        "trust",
        f"{_EVALUATION}.examination:Trust",
    ),
    Result(
        "interventions",
        "trust/interventions.json",
        "How the class changes when concepts are corrected.",
        "interventions {}",
        "trust",
        f"{_EVALUATION}.interventions.measure:Interventions",
    ),
    Result(
        "leakage",
        "trust/leakage.json",
        "Whether concept scores hold more information about the class than concept labels do.",
        "leakage {}",
        "trust",
        f"{_EVALUATION}.leakage.leakage:Leakage",
    ),
    Result(
        "localization",
        "localization.json",
        "Whether maps point at the object, and at the part that each concept describes.",
        "localize {}",
        "trust",
        f"{_EVALUATION}.localization.localize:Localization",
    ),
    Result(
        "faithfulness",
        "faithfulness.json",
        "Whether maps show what the model uses.",
        "faithfulness {}",
        "trust",
        f"{_EVALUATION}.faithfulness.faithfulness:Faithfulness",
    ),
    Result(
        "failures",
        "trust/failures.json",
        "Subgroup performance, calibration, and out-of-distribution detection.",
        "audit {}",
        "trust",
        f"{_EVALUATION}.subgroups.failures:Failures",
    ),
    Result(
        "audit",
        "audit/audit.json",
        "What each code and each concept has learned.",
        "audit {}",
        "trust",
        f"{_EVALUATION}.codebook.document:Audit",
    ),
    Result("corrections", "corrections.csv", "Labels that people corrected in the web page.", view="image"),
    Result(
        "evaluation",
        "evaluation/*.json",
        "Metrics on other data, or on another split.",
        "evaluate {}",
        document=f"{_EVALUATION}.evaluate:Evaluation",
    ),
    Result(
        "explanations",
        "explain/*.json",
        "Why the model predicts what it does for one image.",
        "explain {}",
        document="conceptlens.explanations.document:Explanation",
    ),
    Result(
        "refine",
        "refine/*/refine.json",
        "Before and after a change of concepts.",
        "refine {} --replace OLD=NEW",
        document=f"{_WORKFLOWS}.refine.document:Refinement",
    ),
    Result(
        "export",
        "export/*.json",
        "The card of an exported model.",
        "export {}",
        document=f"{_WORKFLOWS}.export.card:ExportCard",
    ),
    Result(
        "graph",
        "graph.json",
        "How concepts of each layer cause those of the next.",
        "resume {}",
        "graph",
        "conceptlens.gig.document:Graph",
        "decomposition",
    ),
    Result(
        "validation",
        "validation.json",
        "Whether the graph agrees with the network.",
        view="graph",
        document="conceptlens.gig.validation.validation:Validation",
        kind="decomposition",
    ),
    Result("report", "report.html", "The page of the decomposition.", kind="decomposition"),
    Result("history", "history.jsonl", "One line an epoch of the extractor.", view="training", kind="codebook"),
    Result("extractor", "extractor/extractor.json", "The card of the extractor.", kind="codebook"),
    *(
        Result(name, f"codebook/{name}.json", about, command, "studio", kind="codebook")
        for name, about, command in (
            ("tokens", "Which tokens are important for each concept.", "codebook tokens {}"),
            ("search", "Tokens that a search finds for a concept.", "codebook search {} CONCEPT"),
            (
                "edit",
                "An image whose tokens were changed towards a concept.",
                'codebook edit {} --sample 0 --to CONCEPT --region "center 4x4"',
            ),
            ("masking", "What judges predict when a concept's tokens are hidden.", "codebook mask {} --judge RUN"),
            ("pairs", "What judges predict for edits between pairs of concepts.", "codebook pairs {} --judge RUN"),
            ("bias", "Which concepts appear together more often than they should.", "codebook bias {}"),
        )
    ),
    Result(
        "results",
        "results.json",
        "Every row of a comparison, over its seeds.",
        "compare FILE --out {}",
        "compare",
        None,
        "comparison",
    ),
    Result("page", "study.html", "The page for raters.", view="study", kind="study"),
    Result("key", "key.json", "Which maps were shuffled.", document=f"{_WORKFLOWS}.study.key:Key", kind="study"),
    Result(
        "analysis",
        "analysis.json",
        "What the raters' answers show about the maps.",
        "study analyze {}",
        "study",
        f"{_WORKFLOWS}.study.analyze:Analysis",
        "study",
    ),
)
_registered: list[Result] = []


def results(kind: Kind = "bottleneck") -> dict[str, Result]:
    """What a folder of a kind can hold, by name: the built-in results, then registered ones."""
    return {result.name: result for result in (*BUILT_IN, *_registered) if result.kind == kind}


def find_result(name: str, kind: Kind = "bottleneck") -> Result:
    """The result of that name.

    Raises:
        UserError: There is none.
    """
    known = results(kind)
    if name not in known:
        raise UserError(f"No result is called {name!r}; there are {', '.join(known)}.")
    return known[name]


def register_result(
    name: str,
    file: str,
    about: str,
    *,
    command: str | None = None,
    view: str | None = "trust",
    document: str | None = None,
    kind: Kind = "bottleneck",
) -> Result:
    """Declare a result of your own; the same declaration twice is one.

    Args:
        name: Lower case letters, digits and hyphens.
        file: A file in the folder, such as `sparsity.json`.
        about: One sentence, shown above it.
        command: What makes it, behind `conceptlens`; `{}` is the folder.
        view: The view that shows it; in the trust view, a JSON file is shown as a table of its numbers.
        document: `module:Class` of a `Document`, if there is one.
        kind: Of the folder.

    Raises:
        UserError: The name or the file is taken or not allowed.

    >>> import conceptlens as cl
    >>> cl.register_result("margins", "margins.json", "How far the likeliest class is ahead.")  # doctest: +SKIP
    """
    result = Result(name, file, about, command, view, document, kind)
    if result in _registered:
        return result
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,59}", name):
        raise UserError(f"{name!r}: expected a name of lower case letters, digits and hyphens, at most 60.")
    if file.startswith("/") or ".." in file.split("/") or "\\" in file:
        raise UserError(f"{file}: expected a path inside the run folder, such as {name}.json.")
    for known in results(kind).values():
        if known.name == name or known.file == file:
            raise UserError(f"{name} ({file}): taken by the result {known.name} ({known.file}). Choose another one.")
    _registered.append(result)
    return result


def unregister_result(name: str, kind: Kind = "bottleneck") -> None:
    """Take a registered result back; a built-in one stays."""
    _registered[:] = [result for result in _registered if (result.name, result.kind) != (name, kind)]
