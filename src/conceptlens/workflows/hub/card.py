"""The model card of a published run, filled from what was measured; what was not measured is said."""

import re
from collections.abc import Sequence
from pathlib import Path

from conceptlens.core.documents import TableRow
from conceptlens.core.files import dump_yaml, read_json
from conceptlens.evaluation.examination import Trust
from conceptlens.evaluation.summary import metric_table
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.verdicts import FILE as TRUST

SHOWN = 40  # concepts in the card


def model_card(run: OpenedRun, *, license: str | None = None, repository: str = "USER/NAME") -> str:
    """Markdown with the front matter that hubs read.

    Args:
        run: The run.
        license: Of the weights, as hubs abbreviate it.
        repository: For the example.
    """
    info, split = run.info, run.reported_split
    metrics = read_json(run.path / "metrics.json")["splits"][split]
    rows = metric_table(metrics)
    head = {
        "library_name": "conceptlens",
        "pipeline_tag": "image-classification",
        "tags": ["conceptlens", "concept-bottleneck", "explainable-ai", info["method"]],
        **({"license": license} if license else {}),
        "model-index": [
            {
                "name": repository.rpartition("/")[2],
                "results": [
                    {
                        "task": {"type": "image-classification"},
                        "dataset": {"name": str(info["data"]["name"]), "type": "own", "split": split},
                        "metrics": [
                            {"type": row["metric"], "name": _name(row), "value": round(_value(row), 4)} for row in rows
                        ],
                    }
                ],
            }
        ],
    }
    parts = [
        f"---\n{dump_yaml(head)}---",
        f"# {repository.rpartition('/')[2]}",
        f"A {_text(info['method'])} model of conceptlens: it reads "
        f"{len(run.read_concepts)} concepts from an image and decides between {len(run.card.classes)} classes by them.",
        "```python\nimport conceptlens as cl\n\n"
        f'model = cl.load("hf://{repository}")\nprint(model.predict("image.png").text())\n```',
        "## What it tells apart",
        f"**Classes:** {', '.join(map(_text, run.card.classes))}.",
        _concepts(run),
        f"## What was measured, on {split} images of {_text(info['data']['name'])}",
        _table(rows),
        *(["**Beside the concepts:** " + _text(info["bypass"])] if info.get("bypass") else []),
        "## What was found when it was examined",
        _trust(run.path),
        "## Limits",
        "\n".join(
            f"- {line}"
            for line in (
                *map(_text, info.get("warnings", [])),
                "Numbers are of the data named above; other data, devices and people may give others.",
                "A concept's name is what its labels were called, not a proof of what the model looks at.",
            )
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _concepts(run: OpenedRun) -> str:
    groups = [f"{_text(group.name)} ({', '.join(map(_text, group.values))})" for group in run.read_concepts.groups]
    if not groups:
        return "**Concepts:** none; this method reads the class from the image."
    more = f"; and {len(groups) - SHOWN} more groups in `concepts.yaml`" if len(groups) > SHOWN else ""
    return f"**Concepts:** {'; '.join(groups[:SHOWN])}{more}."


def _text(word: object) -> str:
    """Words of a run, which may be anyone's, as text in Markdown: one line without links, pictures and markup."""
    return re.sub(r"([\\`*_\[\]<>|#!~])", r"\\\1", " ".join(str(word).split()))


def _name(row: TableRow) -> str:
    return str(row["name"]).strip()


def _value(row: TableRow) -> float:
    return float(row["value"] or 0)


def _table(rows: Sequence[TableRow]) -> str:
    lines = ["| measure | value | 95 % interval |", "| --- | --- | --- |"]
    for row in rows:
        spread = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(f"| {_text(_name(row))} | {_value(row):.3f} | {spread} |")
    return "\n".join(lines)


def _trust(path: Path) -> str:
    if not (path / TRUST).is_file():
        return (
            "It was not examined. `conceptlens trust RUN` measures corrections, leakage, maps, calibration, subgroups."
        )
    trust = Trust.read(path / TRUST)
    return "\n".join(f"- **{side}** ({verdict.outcome}): {_text(verdict.reason)}" for side, verdict in trust.ordered())
