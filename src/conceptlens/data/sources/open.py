"""From the words in a recipe to a data source: built-in, folder, table, shards, arrays or Hugging Face data."""

import os
from pathlib import Path
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.concepts.concept_set import library
from conceptlens.core.errors import UserError, did_you_mean, unknown_name
from conceptlens.core.plugins import is_code
from conceptlens.core.registry import BUILTIN_DATA, DATA_SOURCES
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.box_crop import BoxCropped
from conceptlens.data.labels.corrections import correct_labels
from conceptlens.data.regions.files import region_files
from conceptlens.data.sources.blood_cells import BloodCells, OffCenterBloodCells
from conceptlens.data.sources.folder import Folder
from conceptlens.data.sources.hf import HuggingFace, is_saved
from conceptlens.data.sources.memory import MEMORY, open_memory
from conceptlens.data.sources.npy import IMAGES, NpyPair
from conceptlens.data.sources.shard_files import is_pattern
from conceptlens.data.sources.shards import Shards
from conceptlens.data.sources.table import Table
from conceptlens.recipes.schema import DataConfig, RegionsConfig

BUILTIN = BUILTIN_DATA
HUB = "hf:"
_TABLES = {".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".pq"}


def open_source(
    config: DataConfig, concepts: ConceptSet | None, problems: Problems | None = None, data: Any = None
) -> tuple[DataSource, ConceptSet]:
    """The data of a recipe, and the concept set that its labels speak of.

    Args:
        config: Where images and labels come from. The name of built-in data wins over a folder called the same; write
            `./shapes` for the folder.
        concepts: The concept set; built-in data brings its own if none is given.
        problems: Gathers what is wrong instead of raising the first error, where the rest can still be read.
        data: Data in memory, in the place of what the recipe names (see `sources.memory`).

    Raises:
        UserError: There is no such source, it cannot be read, or it needs a concept set and has none.
    """
    if concepts is not None and concepts.columns is not None:
        # Tables hold values that the model leaves out: labels are read with all concepts, then some are kept.
        source, whole = open_source(config, concepts.whole, problems, data)
        source.examples = source.examples.with_concepts(concepts.columns)
        return source, whole.subset(concepts.columns)
    if data is not None:
        return open_memory(data, config, concepts, problems)
    source, vocabulary = _open(config, concepts, problems)
    if config.corrections is not None:
        correct_labels(config, source, vocabulary)
    if config.regions != RegionsConfig():
        source.places = region_files(config.regions, source, table=config.source)
    return (BoxCropped(source) if config.regions.crop else source), vocabulary


def _open(config: DataConfig, concepts: ConceptSet | None, problems: Problems | None) -> tuple[DataSource, ConceptSet]:
    kind = _kind(config)
    rename = config.rename
    if kind in ("builtin", "npy") and (rename.classes or rename.columns or rename.values):
        raise UserError("data.rename: other names are read in tables and folders; this source has none of its own.")
    if kind == "plugin":
        source, own = DATA_SOURCES.get(config.source)(config, concepts)
        if not isinstance(source, DataSource) or not isinstance(own, ConceptSet):
            raise UserError(
                f"data.source: {config.source} returned {type(source).__name__} and {type(own).__name__}; expected a "
                "DataSource and a ConceptSet."
            )
        return source, own
    if kind == "builtin":
        if config.source == "shapes":
            from conceptlens.data.sources.shapes import Shapes

            shapes = Shapes(config.shapes, concepts)
            return shapes, shapes.concepts  # its own set follows its settings
        cells = BloodCells if config.source == BloodCells.name else OffCenterBloodCells
        concepts = concepts or ConceptSet.load(BloodCells.name)
        return cells(concepts, config, problems), concepts
    path = Path(config.source).expanduser()
    if concepts is None:
        raise _no_concepts(config.source)
    if kind == "shards":
        return Shards(config, concepts, problems), concepts
    if kind == "hf":
        if config.source.startswith(HUB):
            from conceptlens.data.sources.hf_hub import from_hub

            name = config.source.removeprefix(HUB).split("/")[-1].replace(":", "-")
            return HuggingFace(from_hub(config.source), config, concepts, problems, name=name), concepts
        return HuggingFace(path, config, concepts, problems), concepts
    if kind == "npy":
        folder = path.parent if path.name == IMAGES else path
        return NpyPair(folder, config, concepts, problems, channel_order=config.npy_channels), concepts
    return (Table if kind == "table" else Folder)(path, config, concepts, problems), concepts


def _kind(config: DataConfig) -> str:
    """The format of the source, looked at if the recipe does not say it."""
    if config.kind == "builtin" and config.source not in BUILTIN:
        raise unknown_name("built-in data", config.source, BUILTIN)
    if config.kind == "builtin" or (config.kind == "auto" and config.source in BUILTIN):
        return "builtin"
    if config.kind in ("auto", "hf") and config.source.startswith(HUB):
        return "hf"
    if config.source == MEMORY and not Path(MEMORY).exists():
        raise UserError(
            "The data of this run was in memory when it was trained. Pass it again: `cl.load(run, data=...)` or "
            "`cl.resume(run, data=...)` in Python."
        )
    path = Path(config.source).expanduser()
    if config.kind == "auto" and (config.source in DATA_SOURCES or (is_code(config.source) and not path.exists())):
        return "plugin"
    if config.kind == "shards" or (config.kind == "auto" and not path.exists() and is_pattern(config.source)):
        return "shards"
    if not path.exists():
        raise _nowhere(config.source, path)
    if config.kind != "auto":
        if config.kind == "folder" and not path.is_dir():
            raise UserError(f"{path}: expected a folder with a folder per class, found a file.")
        if config.kind == "table" and path.is_dir():
            raise UserError(f"{path}: expected a CSV, Excel or Parquet table, found a folder.")
        if config.kind == "hf" and not is_saved(path):
            raise UserError(f"{path}: expected a folder that `Dataset.save_to_disk` wrote, with dataset_info.json.")
        return config.kind
    if path.is_dir():
        return "hf" if is_saved(path) else "npy" if (path / IMAGES).is_file() else "folder"
    if path.name == IMAGES:
        return "npy"
    if path.suffix.lower() == ".tar":
        return "shards"
    if path.suffix.lower() in _TABLES:
        return "table"
    raise UserError(
        f"{path}: expected a folder, a table ({', '.join(sorted(_TABLES))}) or {IMAGES}. "
        "Set data.kind if it is one of them under another name."
    )


def _nowhere(source: str, path: Path) -> UserError:
    """Nothing of that name: what was meant?"""
    if not path.suffix and len(path.parts) == 1:
        beside = [name for name in os.listdir() if not name.startswith(".")]
        known = (*BUILTIN, *DATA_SOURCES.names())
        close = did_you_mean(source, (*known, *beside))
        hint = close if close.startswith("Did") else did_you_mean(source, known)
        return UserError(f"Unknown data source {source!r}: neither built-in nor a file or folder here. {hint}")
    folder = path.parent
    if not folder.is_dir():
        return UserError(f"{path}: no such file or folder; {folder} is not there either.")
    close = did_you_mean(path.name, [name for name in os.listdir(folder) if not name.startswith(".")])
    hint = f" {close}" if close.startswith("Did") else ""  # pages show this: other names in the folder stay private
    return UserError(f"{path}: no such file or folder.{hint}")


def _no_concepts(source: str) -> UserError:
    return UserError(
        f"{source}: your own data needs a concept file, which names what a model may say about an image. Write one:\n\n"
        "    classes: [benign, malignant]\n"
        "    groups:\n"
        "      border: {kind: exclusive, column: border, values: [regular, irregular]}\n"
        "      colour: {kind: exclusive, column: colour, values: [light brown, dark brown, black]}\n\n"
        "and pass it as `concepts: my-concepts.yaml` in the recipe, or --concepts. `conceptlens init` writes one from "
        "the columns of a table; `--method black-box` trains without. "
        f"Ready ones, by name: {', '.join(library())}."
    )
