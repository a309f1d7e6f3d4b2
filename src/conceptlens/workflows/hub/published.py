"""A run as it is published: what predicting needs and what was measured; no image, no name of one, no path.

The folder is a run folder that `OpenedRun` opens, with the two files that hubs expect: `README.md`, the model card,
and `config.json`.
"""

import json
import re
import shutil
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from conceptlens.core.files import dump_yaml, new_folder, read_json, read_yaml, write_json, write_text
from conceptlens.core.version import __version__
from conceptlens.explanations.caution import SETS, Caution
from conceptlens.runs.image_distribution import FILE as DISTRIBUTION
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.verdicts import FILE as TRUST
from conceptlens.workflows.hub.card import model_card

COPIED = ("concepts.yaml", DISTRIBUTION, "model/model.json", "model/weights.safetensors")
FILES = (*COPIED, "README.md", "config.json", "metrics.json", "recipe.yaml", "run.json", SETS, TRUST)
LEFT_OUT = ("reason", "code")  # of run.json: they may hold paths and sentences of the machine it was trained on


def save_published(run: OpenedRun, folder: Path, *, license: str | None = None, repository: str = "USER/NAME") -> None:
    """Write what is published of a run.

    Args:
        run: The run.
        folder: Is made, or replaced.
        license: Of the weights, as hubs abbreviate it.
        repository: Where it will be, for the card's example.
    """
    with new_folder(folder) as aside:
        for name in COPIED:
            if (run.path / name).is_file():
                (aside / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(run.path / name, aside / name)
        write_text(aside / "recipe.yaml", dump_yaml(without_paths(read_yaml(run.path / "recipe.yaml"))))
        info = {name: value for name, value in run.info.items() if name not in LEFT_OUT}
        write_json(aside / "run.json", without_paths(info))
        write_json(aside / "metrics.json", read_json(run.path / "metrics.json"))
        if (run.path / TRUST).is_file():
            (aside / TRUST).parent.mkdir(exist_ok=True)
            shutil.copyfile(run.path / TRUST, aside / TRUST)
        bounds = Caution.read(run.path, run.card).bounds
        if bounds is not None:
            write_json(aside / SETS, {"bounds": [float(each) if np.isfinite(each) else None for each in bounds]})
        write_text(aside / "config.json", json.dumps(_config(run), indent=2, ensure_ascii=False) + "\n")
        write_text(aside / "README.md", model_card(run, license=license, repository=repository))


def _config(run: OpenedRun) -> dict[str, Any]:
    """What tools that read hubs look at."""
    return {
        "library_name": "conceptlens",
        "library_version": __version__,
        "architectures": [type(run.pipeline.model).__name__],
        "method": run.info["method"],
        "image_size": run.card.image_size,
        "id2label": dict(enumerate(run.card.classes)),
        "concepts": run.read_concepts.names,
    }


def without_paths(tree: Any) -> Any:
    """The same tree with the last name of each absolute path: where it lay on a machine is private."""
    if isinstance(tree, dict):
        return {key: without_paths(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_paths(value) for value in tree]
    if isinstance(tree, str) and re.match(r"/|~|[A-Za-z]:[\\/]|\\\\|(\w+::)*(file|local)://", tree):
        kind = PureWindowsPath if re.match(r"[A-Za-z]:[\\/]|\\\\", tree) else PurePosixPath
        return kind(tree).name or "data"
    return tree
