"""The kinds of result folders that are served; what they may hold, and what makes it, is in `runs.results`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from conceptlens.core.errors import UserError
from conceptlens.runs.results import Kind, results

WRITTEN: dict[str, Kind] = {  # by the `kind` of their run.json
    "bottleneck": "bottleneck",
    "decompose": "decomposition",
    "codebook": "codebook",
    "compare": "comparison",
    "study": "study",
}
WORDS: dict[Kind, str] = {
    "bottleneck": "a trained model",
    "decomposition": "a decomposed network",
    "codebook": "a study of a codebook",
    "comparison": "a comparison of methods",
    "study": "a study with people",
}


def files(kind: Kind) -> dict[str, str]:
    """What a folder may have, by the name the API gives it; what comes in many files is not listed."""
    return {name: result.file for name, result in results(kind).items() if result.single}


def kind_of(info: Mapping[str, Any], shown: str) -> Kind:
    """By its run.json; a kind that is not known is refused."""
    written = info.get("kind") or "bottleneck"
    if written not in WRITTEN:
        raise UserError(
            f"{shown}/run.json: expected a kind among {', '.join(WRITTEN)}, found {written!r}. It may come from a "
            "newer conceptlens."
        )
    return WRITTEN[cast(str, written)]


def command_for(kind: Kind, name: str, shown: str) -> str | None:
    """The command that makes what is missing, ready to be pasted; None where there is none."""
    result = results(kind).get(name)
    words = result.command if result else None
    return f"conceptlens {words.replace('{}', shlex.quote(shown))}" if words else None


def shown_path(name: object) -> str:
    """A model's name; of a folder below this one the short way, so that pictures and shared files name no machine."""
    path = Path(str(name))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(name)


def about(kind: Kind, info: Mapping[str, Any]) -> str | None:
    """What a folder other than a trained model is, in a line, from its run.json alone."""
    model = info.get("model")
    model_name = shown_path(model.get("name")) if isinstance(model, Mapping) else None
    if kind == "decomposition":
        return f"{model_name}, decomposed into concepts layer by layer"
    if kind == "codebook":
        told = info.get("conditions")
        concepts = f"{len(told)} concepts" if isinstance(told, Mapping) and told else "concepts"
        return f"which tokens of {model_name} make {concepts}"
    if kind == "comparison":
        rows = [str(row) for row in info.get("rows") or []]
        controls = sum(row.endswith(" (random text)") for row in rows)
        beside = f", {controls} of them again with random text" if controls else ""
        return f"{info.get('name')}: {len(rows) - controls} rows{beside}"
    if kind == "study":
        # How many maps are shuffled is not for raters, who may see this as well.
        return f"{info.get('questions')} questions for people about maps of the run {info.get('run')}"
    return None
