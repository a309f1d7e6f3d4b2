"""Train, resume and load models; estimate the cost of a training; compute tokens once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conceptlens.core.documents import TextResult
from conceptlens.core.progress import note

if TYPE_CHECKING:
    from conceptlens.model import TrainedModel
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.training.batches.own_transform import Transform
    from conceptlens.training.cost import Cost
    from conceptlens.training.encode import EncodedImages
    from conceptlens.training.records.callbacks import Callback

Overrides = Sequence[str] | Mapping[str, Any]
RecipeLike = str | Path | Mapping[str, Any]
DEMO = ("blood-cells/ivq-cbm", "blood-cells/evidence-cbm")


def load(run: "str | Path | OpenedRun", *, device: str | None = None, data: Any = None) -> "TrainedModel":
    """Open a trained model.

    Args:
        run: Its run folder, or the address of a published one, as hf://USER/NAME; fetched once, then from the cache.
        device: Device of the weights; by default the GPU, if there is one.
        data: The data it was trained on, if it was in memory.

    >>> import conceptlens as cl
    >>> cl.load(run)
    TrainedModel('...run', method='evidence-cbm', data='shapes')
    """
    from conceptlens.model import TrainedModel

    if isinstance(run, str) and run.startswith("hf://"):
        from conceptlens.workflows.hub.transfer import fetch_run

        run = fetch_run(run)
    return TrainedModel.open(run, device=device, data=data)


def train(
    recipe: RecipeLike | None = None,
    overrides: Overrides = (),
    *,
    data: Any = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    callbacks: "Sequence[Callback]" = (),
    transform: "Transform | None" = None,
    **settings: Any,
) -> "TrainedModel":
    """Train a recipe and return the model.

    Any key of the recipe can be set here, as --training.epochs 5 or --data.source my.csv; `conceptlens recipe` shows
    all keys with their values.

    Args:
        recipe: A YAML file, the name of a ready recipe, or in Python a mapping; the defaults if none is named.
        overrides: Settings that override the recipe's: a mapping, or words as on the command line.
        data: Replaces the recipe's data: the name of a source, or in Python data in memory: (images, labels,
            concepts), a data frame, a torch or Hugging Face `Dataset`, `ImageData` or a `DataSource`.
        out: The run folder; `runs/<data>-<method>-<seed>` by default. With data in memory, a
            temporary folder that is removed with the model.
        overwrite: Replace an existing run.
        quiet: Show no progress.
        callbacks: In Python: called during training, such as `conceptlens.WeightsAndBiases` or your own
            `conceptlens.Callback`.
        transform: In Python: your own augmentation instead of `training.augment`: torchvision v2, albumentations,
            kornia, or a function of bytes (3, H, W). In the same epoch, every run changes an image in the same way.
        settings: Further settings by name, as `epochs=10`, `seed=1` or `encoder__train=1`.

    >>> import conceptlens as cl
    >>> model = cl.train("blood-cells/cbm", epochs=8, seed=1)  # doctest: +SKIP
    >>> model.predict("cell.png").to_pandas()  # doctest: +SKIP
    """
    import tempfile

    from conceptlens.data.sources.memory import MEMORY
    from conceptlens.model import TrainedModel
    from conceptlens.recipes.parse import load_recipe, merge, parse_overrides, read_recipe
    from conceptlens.recipes.settings import settings_tree
    from conceptlens.reports.page import write_report
    from conceptlens.training.train import Own, start_run

    tree = parse_overrides(overrides) if not isinstance(overrides, Mapping) else dict(overrides)
    tree = merge(tree, settings_tree(settings))
    if out is not None:
        tree["out"] = str(out)
    temporary, held = None, None
    if isinstance(data, str | Path):
        tree = merge(tree, {"data": {"source": str(data)}})
    elif data is not None:
        held = data
        tree = merge(tree, {"data": {"source": MEMORY}})
        if "out" not in tree and not (recipe is not None and "out" in read_recipe(recipe)[0]):
            temporary = tempfile.TemporaryDirectory(prefix="conceptlens-")
            tree["out"] = str(Path(temporary.name) / "run")
    loaded = load_recipe(recipe, tree, trusted=True)
    own = Own(callbacks, transform)
    folder = start_run(loaded, write_report, data=held, overwrite=overwrite, quiet=quiet, own=own)
    model = TrainedModel(folder, data=held)
    model._temporary = temporary
    return model


def resume(
    run: str | Path,
    *,
    data: Any = None,
    quiet: bool = False,
    callbacks: "Sequence[Callback]" = (),
    transform: "Transform | None" = None,
) -> Any:
    """Continue a training or a decomposition that was stopped; the result is the same as without the stop.

    Args:
        run: The run folder.
        data: The data it was trained on, if it was in memory.
        quiet: Show no progress.
        callbacks: In Python: called during training.
        transform: In Python: the augmentation that the run started with, if it was your own.

    >>> import conceptlens as cl
    >>> cl.resume("runs/blood-cells-cbm-1")  # doctest: +SKIP
    """
    from conceptlens.runs.folder import RunFolder

    if RunFolder.open(run).info.get("kind") == "decompose":
        from conceptlens.gig.run import resume_decomposition

        return resume_decomposition(run, note(quiet))
    from conceptlens.model import TrainedModel
    from conceptlens.reports.page import write_report
    from conceptlens.training.train import Own, resume_run

    own = Own(callbacks, transform)
    return TrainedModel(resume_run(run, write_report, data=data, quiet=quiet, own=own), data=data)


def estimate(recipe: RecipeLike, overrides: Overrides = ()) -> "Cost":
    """Estimate what training a recipe would cost; nothing is written.

    Args:
        recipe: A YAML file, the name of a ready recipe, or a mapping.
        overrides: Settings that override the recipe's.

    >>> import conceptlens as cl
    >>> cl.estimate("blood-cells/cbm", {"training": {"epochs": 3}}).text()  # doctest: +SKIP
    """
    from conceptlens.core.processes import Launched
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.training.cost import estimate as estimate_session
    from conceptlens.training.records.progress import Progress
    from conceptlens.training.train import open_session

    loaded = load_recipe(recipe, overrides, trusted=True)
    return estimate_session(open_session(loaded, None, Launched(loaded.training.precision), Progress(quiet=True)))


def show_recipe(recipe: RecipeLike, overrides: Overrides = ()) -> TextResult:
    """Show the complete recipe: every key with its value.

    Args:
        recipe: A YAML file, the name of a ready recipe, or a mapping.
        overrides: Settings that override the recipe's.

    >>> import conceptlens as cl
    >>> "epochs: 3" in cl.show_recipe("blood-cells/cbm", {"training": {"epochs": 3}}).text()
    True
    """
    from conceptlens.recipes.parse import load_recipe, recipe_yaml

    return TextResult(recipe_yaml(load_recipe(recipe, overrides, trusted=True)).rstrip())


def encode(recipe: RecipeLike, overrides: Overrides = (), *, quiet: bool = False) -> "EncodedImages":
    """Compute the tokens of a frozen encoder once for every image; `train` then starts from them.

    The recipe's encoder must be frozen or train its last blocks only. --encoder.store FOLDER names the place of the
    tokens. A second call continues where the first was stopped.

    Args:
        recipe: A YAML file, the name of a ready recipe, or a mapping.
        overrides: Settings that override the recipe's.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.encode("blood-cells/cbm", {"encoder": {"store": "tokens"}})  # doctest: +SKIP
    """
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.training.encode import encode_recipe

    return encode_recipe(load_recipe(recipe, overrides, trusted=True), quiet=quiet)


def demo(*, out: str | Path = "runs/demo", overwrite: bool = False, quiet: bool = False) -> "TrainedModel":
    """Train two models on the built-in blood cells and show the results: an IVQ-CBM, and evidence-cbm beside it.

    Args:
        out: The run folder of the IVQ-CBM; that of evidence-cbm is named after it. What is finished is shown, what was
            stopped is continued.
        overwrite: Train again even if the demo is there.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.demo()  # doctest: +SKIP
    """
    folder = Path(out)
    models = []
    for recipe, place in zip(DEMO, (folder, folder.with_name(f"{folder.name}-evidence")), strict=True):
        models.append(_demo_model(recipe, {"out": str(place)}, place, overwrite=overwrite, quiet=quiet))
    note(quiet)(f"side by side: conceptlens serve {' '.join(str(model.path) for model in models)}")
    return models[0]


def _demo_model(recipe: str, settings: Mapping[str, Any], out: Path, *, overwrite: bool, quiet: bool) -> "TrainedModel":
    """One of the demo's models, as far as it is not there."""
    from conceptlens.recipes.parse import load_recipe, recipe_yaml
    from conceptlens.runs.folder import RunFolder
    from conceptlens.training.paths import with_absolute_paths

    there = (out / "run.json").exists()
    if there and not overwrite:
        wanted = recipe_yaml(with_absolute_paths(load_recipe(recipe, settings)))
        if (out / "recipe.yaml").exists() and (out / "recipe.yaml").read_text("utf-8") == wanted:
            done = RunFolder.open(out).info["status"] == "done"
            words = "was trained before; --overwrite trains it again" if done else "is continued"
            note(quiet)(f"{recipe} {words}")
            model: TrainedModel = resume(out, quiet=quiet)
            return model
    note(quiet)(f"training {recipe}: about two minutes on two cores")
    return train(recipe, settings, overwrite=there, quiet=quiet)


def list_everything() -> TextResult:
    """List recipes, methods, concept sets, data and encoders that come with the package or its plug-ins.

    >>> import conceptlens as cl
    >>> print(cl.list_everything().text())
    recipes: ...
    """
    from conceptlens.concepts import library
    from conceptlens.core.registry import ENCODERS, list_data_sources, list_methods, list_regularizers
    from conceptlens.encoders import BUILTIN, LITE0, MINI, list_text_encoders
    from conceptlens.recipes.parse import recipe_names

    sections: dict[str, Sequence[str]] = {
        "recipes": recipe_names(),
        "methods": list_methods(),
        "regularizers": list_regularizers(),
        "concept sets": library(),
        "data": list_data_sources(),
        "encoders": [BUILTIN, LITE0, MINI, *ENCODERS.names(), "timm/NAME", "open_clip/NAME", "transformers/NAME"],
        "text encoders": [*list_text_encoders(), "open_clip/NAME"],
    }
    return TextResult("\n".join(f"{title + ':':15}{', '.join(names)}" for title, names in sections.items()))
