"""Write docs/files.md: every file of a run folder and of other results, and what stands in it.

Results, their commands and the fields of JSON files come from the table of results (`runs/results.py`) and the classes
that read them; what no class reads is described here. Run `python scripts/files_docs.py` after a change. A test checks
that the page is current, and that a run folder holds no file and no key that is not described.
"""

import ast
import dataclasses
import inspect
import io
import re
import sys
import textwrap
import tokenize
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conceptlens.gig.settings import Settings
from conceptlens.reports.stories import Stories
from conceptlens.runs.results import BUILT_IN, Kind, Result
from conceptlens.runs.saved import Card
from conceptlens.workflows.study.responses import Responses

FILE = Path(__file__).parent.parent / "docs" / "files.md"
HEAD = """# Files

This page is written by `scripts/files_docs.py` from the code that writes and reads the files. Tables are CSV, text is
UTF-8, arrays are safetensors: nothing is pickled. Each JSON file has `schema: 3`; shares and scores are fractions, and
what cannot be computed is `null`. What is promised of old files: [architecture](architecture.md#files).

Fields are as in the class that reads the file: name, type, and what is not plain from the name. Numbers and texts are
`float` and `str`, `list[…]` an array, `dict[…]` an object; `| None` may be `null`.
"""
KINDS: dict[Kind, str] = {
    "bottleneck": "A trained model",
    "decomposition": "A decomposition (`conceptlens decompose`)",
    "codebook": "A study of a codebook (`conceptlens codebook extract`)",
    "comparison": "A comparison (`conceptlens compare`)",
    "study": "A study with people (`conceptlens study make`)",
}
RUN = {
    "id": "name of the folder",
    "kind": "of the folder, as the sections of this page",
    "status": "`running`, `done` or `failed`",
    "reason": "why it failed",
    "method": "name of the method",
    "regularizer": "name of the regularizer",
    "supervision": "what the method learns concepts from",
    "bypass": "what reaches the class besides the concepts, in words; `null` if nothing does",
    "data": "name, hash of names and labels, hash of the splits, number of images",
    "encoder": "name, and hash of its weights before training",
    "concepts": "name and hash of the concept set",
    "seed": "of all that is drawn",
    "warnings": "what was noticed about the training",
    "transform": "name of an own augmentation",
    "code": "files of own code, with their SHA-256",
}
# What no class reads: file → what it holds, and its keys or the class that writes it.
PLAIN: dict[Kind, dict[str, tuple[str, Any]]] = {
    "bottleneck": {
        "run.json": ("What the run is, and how far it is. It makes a folder a run.", RUN),
        "recipe.yaml": ("The recipe with every setting resolved ([keys](reference.md#recipes)).", None),
        "concepts.yaml": ("The [concept set](concepts.md) that was learned.", None),
        "splits.json": (
            "Which image is on which side.",
            {
                "how": "how the sides were chosen",
                "seed": "of the draw",
                "hash": "of the sides",
                "data": "hash of the names of all images",
                "warnings": "what was noticed",
                "splits": "`train`, `val` and `test`: names of images",
            },
        ),
        "environment.json": (
            "What it was trained with.",
            {
                "python": "version",
                "packages": "name → version",
                "machine": "system, processor, number of CPUs",
                "threads": "of the CPU",
                "device": "as `cpu` or `cuda:0`",
                "processes": "that trained together",
            },
        ),
        "manifest.jsonl": ("A header, then a line for each file as it was written: name, size, time, SHA-256.", None),
        "history.jsonl": (
            "A line for each validation, and for the losses before it: `epoch`, `step`, `split`, metrics with dotted "
            "names, `time` in seconds; `kind: rank` and `kind: upkeep` for what happens between.",
            None,
        ),
        "metrics.json": (
            "Metrics of each split.",
            {"splits": "`val`, `test`, or `folds` → `class`, `concept`, `rank`, `codebook`, `slots`, `ceiling`, …"},
        ),
        "model/weights.safetensors": ("Encoder, bottleneck, head and the vectors of texts.", None),
        "model/model.json": ("What must be known to use the weights.", Card),
        "predictions/*.safetensors": (
            "Of each image of a split: `logits`, `concept_logits`, `labels`, `concepts` (−1: unknown), and "
            "`bottleneck` and `context` where they differ. The header has names, units, classes and thresholds.",
            None,
        ),
        "distribution.safetensors": (
            "Training images as a Gaussian: `mean`, `scale`, `directions`, `variances`; the header has the bound "
            "beyond which an image is unlike them ([single images](trust.md#single-images)).",
            None,
        ),
        "prediction_sets.json": (
            "Of a [published](hub.md) run, which keeps no predictions.",
            {"bounds": "of each class's probability"},
        ),
        "stories.json": ("Some test images, described in concepts, for the page.", Stories),
        "state/**": (
            "For `resume`, while it trains: weights, moments, generators, `position.json`. It is gone when it is done.",
            None,
        ),
        "tokens/**": ("What a frozen encoder said of each image, with `encoder.store: run`.", None),
        "folds/**": ("The runs of a cross-validation, each a folder as this one.", None),
        "tensorboard/**": ("Event files with the numbers of `history.jsonl`, with `training.tensorboard`.", None),
        "explain/reference.json": (
            "What contributions are compared with.",
            {
                "weights": "hash of the model's",
                "split": "the images are from",
                "images": "that were averaged",
                "bottleneck": "of the average image",
                "codes": "names of the codes",
            },
        ),
        "explain/*.png": ("Pictures and sheets of explained images.", None),
        "trust/*.png": ("Pictures beside the results.", None),
        "audit/audit.html": ("The audit as a page.", None),
        "audit/*.png": ("Its pictures.", None),
        "refine/**": ("Concept sets, pages and pictures beside the results.", None),
        "export/**": ("`model.pt2` or `model.onnx` ([export](export.md)).", None),
        "page/**": ("Scores and token vectors of a split, as the web page's pass keeps them.", None),
        "annotations.jsonl": (
            "Names, groups, tags and notes that people gave on the page, a line each: `time`, `author`, `kind`, `of`, "
            "`name`, `group`, `note`.",
            None,
        ),
    },
    "decomposition": {
        "run.json": ("As of a trained model; `model` names the network and how its images are prepared.", None),
        "settings.json": ("What was asked for, with which it can go on.", Settings),
        "graph*.json": ("The main graph, and those of an image, of data, of a noisy and of an attacked image.", None),
        "graph*.html": ("Each graph to look at; the main one is in `report.html`.", None),
        "graph.svg": ("The main graph as a figure.", None),
        "held-out.json": ("Images of each output that no concept is learned from.", {"images": "output → numbers"}),
        "layers/*.safetensors": ("Concept vectors of a layer.", None),
        "samples/**": ("The vectors that they are learned from, in shards; `samples.json` says of what.", None),
        "outputs.safetensors": ("What the network says of each image, `outputs`.", None),
        "pictures/**": ("Images, and the samples nearest to each concept.", None),
        "environment.json": ("As of a trained model.", None),
        "manifest.jsonl": ("As of a trained model.", None),
    },
    "codebook": {
        "run.json": ("As of a trained model; `model`, `conditions` and `extractor` make the study again.", None),
        "metrics.json": ("The extractor's accuracy on test samples.", None),
        "extractor/extractor.json": (
            "The card of the extractor.",
            {
                "network": "`CE` or `TE`",
                "concepts": "names",
                "width": "of a code's vector",
                "grid": "rows and columns of tokens",
                "codes": "number of them",
                "codebook": "hash of the codebook",
                "options": "of the network",
                "accuracy": "on validation samples",
            },
        ),
        "extractor/extractor.safetensors": ("Its weights.", None),
        "samples/*.safetensors": (
            "`tokens` and `labels` of a split; the JSON file beside it names the concepts.",
            None,
        ),
        "codebook/tokens.json": (
            "Which tokens are important for each concept.",
            {
                "variant": "of token importance",
                "settings": "of SmoothGrad",
                "images": "training samples",
                "sets": "of each concept: `tokens`, `counts`, by importance",
                "frequent": "the same by frequency",
            },
        ),
        "codebook/search.json": (
            "Tokens that a search finds for a concept.",
            {
                "concept": "its name",
                "region": "positions that were searched, as rows and columns",
                "settings": "of the search",
                "start": "probability before, of each search",
                "end": "and after",
                "steps": "at which `path` was recorded",
                "path": "probability there, of each search",
                "tokens": "the grids that were found",
                "chosen": "`token` and `count`, most frequent first",
            },
        ),
        "codebook/edit.json": (
            "An image whose tokens were changed towards a concept.",
            {
                "target": "the concept",
                "method": "`tokens` or `embeddings`",
                "region": "positions that could change",
                "probability_before": "by the extractor",
                "probability_after": "by the extractor",
                "path": "`step` and `probability`",
                "changed": "`row`, `column`, `from`, `to`",
                "tokens": "the grid afterwards",
                "judges": "of each judge `before` and `after`",
            },
        ),
        "codebook/masking.json": (
            "What judges predict when a concept's tokens are hidden.",
            {
                "fill": "what hidden pixels become",
                "hide": "`positions`, or all tokens of a code",
                "variant": "of token importance",
                "images": "test samples",
                "training_samples": "that token sets are made from",
                "codebook_share": "of a token set",
                "curves": "Figure 4: accuracy and probability by hidden tokens",
                "sets": "Table 2: each judge, each token set",
            },
        ),
        "codebook/pairs.json": (
            "What judges predict for edits between pairs of concepts.",
            {"pairs": "of concepts", "region": "positions that could change", "rows": "Table 5"},
        ),
        "codebook/bias.json": (
            "Which concepts appear together more often than they should.",
            {
                "condition": "what neutral samples were asked for",
                "neutral": "number of them",
                "null": "what they are compared with",
                "k": "tokens that are looked at",
                "sets": "how token sets were made",
                "variant": "of token importance",
                "attributes": "that were compared",
                "tables": "for each `n`: `pairs`, `permutations`, `balanced`",
            },
        ),
        "codebook/grids.json": ("Test samples with tokens, importance and nearest codes, for the page.", None),
        "codebook/**": ("Pictures beside the results.", None),
        "environment.json": ("As of a trained model.", None),
        "manifest.jsonl": ("As of a trained model.", None),
    },
    "comparison": {
        "run.json": ("As of a trained model; `rows` are the recipes.", None),
        "compare.yaml": ("What was compared ([compare](compare.md)).", None),
        "results.json": (
            "Every row of a comparison, over its seeds.",
            {
                "name": "of the comparison",
                "seeds": "of the trainings",
                "folds": "of cross-validations; `null` without",
                "trials": "of a search for settings",
                "statistics": "what the tests were asked for",
                "jobs": "how many are done, of how many",
                "failed": "jobs, and why",
                "data": "of each data set: rows in blocks, with intervals, tests of all pairs, verdicts, rank curves",
            },
        ),
        "zero-shot.json": ("What text vectors alone can say, before any training.", None),
        "table.*": ("The table as Markdown and LaTeX.", None),
        "figures/*.svg": ("Curves.", None),
        "jobs/*.json": (
            "One training.",
            {"id": "of the job", "status": "`done` or `failed`", "reason": "why", "seconds": "it took"},
        ),
        "runs/**": ("The trained models, each a folder as above.", None),
        "environment.json": ("As of a trained model.", None),
        "manifest.jsonl": ("As of a trained model.", None),
    },
    "study": {
        "run.json": ("As of a trained model.", None),
        "analysis.html": ("The analysis as a page.", None),
        "table.md": ("A row as in Table 6 of the IVQ-CBM paper.", None),
        "responses-*.json": ("What a rater answered.", Responses),
        "manifest.jsonl": ("As of a trained model.", None),
    },
}


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in cells) + " |"


def nested(kind: type) -> list[type]:
    """The classes of a class's fields, nearest first, each once."""
    found: list[type] = []

    def walk(annotation: Any) -> None:
        for part in typing.get_args(annotation):
            walk(part)
        own = inspect.isclass(annotation) and issubclass(annotation, BaseModel)
        if own and annotation not in found and annotation is not kind:
            found.append(annotation)
            for hint in _hints(annotation).values():
                walk(hint)

    for hint in _hints(kind).values():
        walk(hint)
    return found


def _hints(kind: Any) -> dict[str, Any]:
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return {field.name: typing.get_type_hints(kind)[field.name] for field in dataclasses.fields(kind)}


def keys(kind: type) -> list[str]:
    return list(_hints(kind))


def listing(kind: type, *, name: str | None = None) -> Iterator[str]:
    """A class's fields as they are written, with their comments."""
    says = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    yield f"{name or kind.__name__}:" + (f"  # {says}" if says not in ("", "The file.") and not name else "")
    for base in reversed(kind.__mro__):
        if base in (kind, *(each for each in kind.__bases__ if each.__module__.startswith("conceptlens"))):
            yield from _fields(base, set(keys(kind)))


def _fields(kind: type, known: set[str]) -> Iterator[str]:
    source = textwrap.dedent(inspect.getsource(kind))
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa"))
    }
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    for line in body.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id in known:
            said = [comments[number] for number in range(line.lineno, (line.end_lineno or 0) + 1) if number in comments]
            yield "  " + "  ".join([f"{line.target.id}: {_type(line.annotation, kind)}", *said])


def _type(annotation: ast.expr, kind: type) -> str:
    """A type as it is written, with what a name of a choice or of an object stands for."""
    names = vars(sys.modules[kind.__module__])

    def spelled(match: re.Match[str]) -> str:
        value = names.get(match[0])
        if typing.get_origin(value) is typing.Literal:
            return " | ".join(f'"{choice}"' for choice in typing.get_args(value))
        return str(value).replace("typing.", "") if typing.get_origin(value) is dict else match[0]

    text = re.sub(r"\b[A-Z]\w*", spelled, ast.unparse(annotation))
    return re.sub(r"Literal\[(.*?)\]", lambda match: match[1].replace("'", '"').replace(", ", " | "), text)


def about(kind: Kind) -> Iterator[tuple[str, str, str, Any]]:
    """File, what it holds, what makes it, what reads it: first what a run begins with."""
    plain = dict(PLAIN[kind])
    results = {result.file: result for result in BUILT_IN if result.kind == kind}
    for file in [*plain, *(file for file in results if file not in plain)]:
        result = results.get(file)
        holds, schema = plain.get(file) or (result.about if result else "", None)
        yield file, holds, _command(result), schema or (result.load_class() if result and result.document else None)


def _command(result: Result | None) -> str:
    if result is None or result.command is None:
        return ""
    return f"`conceptlens {result.command.replace('{}', 'RUN')}`"


def _section(kind: Kind, shared: set[type]) -> Iterator[str]:
    rows = list(about(kind))
    yield from (f"## {KINDS[kind]}", "", "| file | holds | made by |", "| --- | --- | --- |")
    yield from (_row(f"`{file}`", holds, command) for file, holds, command, _ in rows)
    for file, _, _, schema in rows:
        if isinstance(schema, dict):
            yield from ("", f"### {file}", "", "| key | is |", "| --- | --- |")
            yield from (_row(f"`{key}`", meaning) for key, meaning in schema.items())
        elif schema is not None:
            parts = [part for part in nested(schema) if part not in shared]
            blocks = ["\n".join(listing(schema, name=file.rpartition("/")[2])), *("\n".join(listing(p)) for p in parts)]
            yield from ("", f"### {file}", "", "```yaml", "\n\n".join(blocks), "```")
    yield ""


def page() -> str:
    """The page."""
    read = {schema for kind in KINDS for *_, schema in about(kind) if inspect.isclass(schema)}
    counts = Counter(part for schema in read for part in nested(schema))
    shared = {part for part, count in counts.items() if count > 1}
    lines = [HEAD]
    for kind in KINDS:
        lines += _section(kind, shared)
    lines += ["## Parts", "", "What stands in several of these files.", "", "```yaml"]
    lines += ["\n\n".join("\n".join(listing(part)) for part in sorted(shared, key=lambda part: part.__name__)), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
    print(f"written: {FILE}")
