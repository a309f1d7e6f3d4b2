"""From a word to a model: a timm name, a function in the user's own file, or a conceptlens run."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.plugins import load_object
from conceptlens.data.images.read import Fit
from conceptlens.data.images.window import Window
from conceptlens.gig.attribution.targets import TargetKind
from conceptlens.gig.preprocessing import Preprocessing, chosen, of_timm

FRESH = "fresh"


@dataclass(frozen=True)
class LoadedModel:
    """A model with what must be known to give it images and to read its outputs."""

    name: str
    module: nn.Module
    image_size: int
    outputs: list[str]
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    fit: Fit = "crop"
    window: Window = "file"
    target: TargetKind = "probability"  # `logit` where outputs are not classes that exclude each other
    what: str = "class"  # what an output is, in words

    def prepare(self, images: Tensor) -> Tensor:
        """Images in [0, 1], or of bytes, (B, 3, H, W) → as the model takes them."""
        if not images.is_floating_point():
            images = images.float() / 255
        scale = (self.preprocessing.mean, self.preprocessing.std)
        mean, std = (torch.tensor(values, device=images.device).view(1, 3, 1, 1) for values in scale)
        return (images - mean) / std

    @property
    def weights_hash(self) -> str:
        """A short hash over all weights."""
        from conceptlens.encoders.freezing import weights_hash

        return weights_hash(self.module)


def open_model(
    word: str,
    *,
    weights: str | None = None,
    classes: str | Path | Sequence[str] | None = None,
    image_size: int | None = None,
    normalize: str | None = None,
    seed: int = 0,
) -> LoadedModel:
    """The model that a word names.

    Args:
        word: A timm name, with or without `timm/`; `path/to/file.py:function`, which is *code that will be run*; or a
            folder of a conceptlens run.
        weights: Of a timm model: a .safetensors file, `fresh` for random weights; published ones by default.
        classes: A text file with the name of a class a line, or the names, in the order of the outputs.
        image_size: Side in pixels; the model's own by default.
        normalize: See `preprocessing.chosen`; the model's configuration by default.
        seed: Of random weights.
    """
    if image_size is not None and image_size < 1:
        raise UserError(f"--image-size: expected a positive whole number, got {image_size}.")
    names = class_names(classes)
    if (Path(word) / "run.json").exists():
        if weights or names or image_size or normalize:
            raise UserError(
                f"{word} is a run: its weights, outputs, image size and normalization are its own; leave them out."
            )
        return _tower(Path(word))
    if ".py:" in word or word.endswith(".py"):
        if weights:
            raise UserError("--weights: your own function loads its weights itself; leave this out.")
        return _own(word, names, image_size, normalize)
    if Path(word).is_dir():
        raise UserError(f"{word}: expected a run folder with a run.json, a timm name or file.py:function.")
    return _timm(word, weights, names, image_size, normalize, seed)


def class_names(classes: str | Path | Sequence[str] | None) -> list[str] | None:
    """Names of the outputs: as they are, or from a text file with a class a line."""
    if not classes:
        return None
    if isinstance(classes, str | Path):
        names, where = _read_names(Path(classes)), f"--classes {classes}"
    else:
        names, where = [str(name) for name in classes], "classes"
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UserError(f"{where}: {repeated[0]!r} is there twice; outputs need names of their own.")
    if len(names) < 2:
        raise UserError(f"{where}: expected two classes or more, found {len(names)}.")
    return names


def _read_names(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except FileNotFoundError:
        raise UserError(f"--classes {path}: no such file; expected a text file with a class a line.") from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise UserError(f"--classes {path}: expected a text file in UTF-8 with a class a line ({error}).") from None
    return [line for line in lines if line]


def _numbered(count: int, names: Sequence[str] | None, where: str) -> list[str]:
    if names is None:
        return [f"class {number}" for number in range(count)]
    if len(names) != count:
        raise UserError(f"{where}: {len(names)} names of classes for {count} outputs.")
    return list(names)


def _timm(
    word: str, weights: str | None, names: list[str] | None, image_size: int | None, normalize: str | None, seed: int
) -> LoadedModel:
    import timm
    from timm.data import ImageNetInfo  # type: ignore[attr-defined]
    from timm.data.config import resolve_model_data_config

    from conceptlens.encoders.timm.published import timm_names

    short = word.removeprefix("timm/")
    known = timm_names()
    if short not in known:
        raise unknown_name("model", word, known)
    more: dict[str, Any] = {"num_classes": len(names)} if names else {}
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # random weights are the same when a decomposition is continued
        model: nn.Module = timm.create_model(short, pretrained=False, **more)
    if weights != FRESH:
        _load_timm(model, short, weights)
    data: dict[str, Any] = resolve_model_data_config(model)  # type: ignore[no-untyped-call]
    count = int(getattr(model, "num_classes", 0))
    if count < 1:
        raise UserError(f"{word}: this model has no classifier; choose one with classes, or name them with --classes.")
    if names is None and count == 1000 and weights != FRESH:  # a random network has not learned ImageNet's classes
        info = ImageNetInfo("imagenet-1k")
        short_names = [info.index_to_description(number).split(",")[0] for number in range(1000)]
        names = [
            name if short_names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(short_names)
        ]
    return LoadedModel(
        name=f"timm/{short}",
        module=model.eval(),
        image_size=image_size or int(data["input_size"][-1]),
        outputs=_numbered(count, names, "--classes"),
        preprocessing=chosen(normalize, of_timm(model)),
    )


def _load_timm(model: nn.Module, short: str, weights: str | None) -> None:
    from conceptlens.encoders.timm.hub import from_hub
    from conceptlens.encoders.weights_file import load_weights, read_weights

    instead = f"Give a local file (--weights FILE.safetensors), or random weights (--weights {FRESH})."
    if weights is not None:
        path = Path(weights)
    else:
        identifier = getattr(model, "pretrained_cfg", {}).get("hf_hub_id")
        if not identifier:
            raise UserError(f"timm/{short}: no weights are published as safetensors. {instead}")
        repository, _, revision = str(identifier).partition("@")
        path = from_hub(f"timm/{short}", repository, "model.safetensors", instead=instead, revision=revision or None)
    state = read_weights(path)
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is not None:
        state = convert(state, model)
    hint = "Is it of this model? If it has other classes, name them with --classes FILE."
    load_weights(model, state, source=str(path), hint=hint)


def _own(word: str, names: list[str] | None, image_size: int | None, normalize: str | None) -> LoadedModel:
    """Run a function that the user named or allowed."""
    file, _, function = word.rpartition(":") if ".py:" in word else (word, "", "")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{path}: no such file. Your own model is named as path/to/file.py:function.")
    if not function:
        raise UserError(f"{word}: which function makes the model? Name it, as {word}:build.")
    build = load_object(word)
    try:
        module = build()
    except UserError:
        raise
    except Exception as error:  # the user's own code may fail in any way
        raise UserError(f"{word} failed: {type(error).__name__}: {error}.") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"{word} returned {type(module).__name__}; expected a torch.nn.Module.")
    return open_module(module, name=word, names=names, image_size=image_size, normalize=normalize)


def open_module(
    module: nn.Module,
    *,
    name: str,
    names: Sequence[str] | None = None,
    image_size: int | None = None,
    normalize: str | None = None,
) -> LoadedModel:
    """A module that is in memory; its attributes `image_size` and `classes` are read where they exist.

    Args:
        module: Images (B, 3, H, W) to outputs (B, classes).
        name: What to call it.
        names: Of the outputs.
        image_size: Side in pixels; the module's own, or 224.
        normalize: See `preprocessing.chosen`; of a timm model its configuration, otherwise none by default.
    """
    size = image_size or getattr(module, "image_size", 224)
    if not isinstance(size, int) or size < 1:
        raise UserError(f"{name}: image_size of the module is {size!r}; expected a positive whole number.")
    own_names = getattr(module, "classes", None)
    with torch.no_grad():
        try:
            like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(1))
            outputs = module.eval()(torch.zeros(1, 3, size, size).to(like))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"{name} does not take images of {size} pixels: {reason}. Set --image-size.") from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"{name}: expected outputs (B, classes), got {shape}.")
    labels = names or (list(map(str, own_names)) if own_names is not None else None)
    return LoadedModel(
        name=name,
        module=module,
        image_size=size,
        outputs=_numbered(outputs.shape[1], labels, name),
        preprocessing=chosen(normalize, of_timm(module)),
    )


@contextmanager
def restored(module: nn.Module | None) -> Iterator[None]:
    """Afterwards a module is on its device, in its mode and as trainable as it was before."""
    parameters = list(module.parameters()) if module is not None else []
    modes = [(part, part.training) for part in module.modules()] if module is not None else []
    trainable = [parameter.requires_grad for parameter in parameters]
    device = parameters[0].device if parameters else None
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
        for parameter, needed in zip(parameters, trainable, strict=True):
            parameter.requires_grad_(needed)
        if module is not None and device is not None:
            module.to(device)


class ConceptTower(nn.Module):
    """A trained run up to its named concepts, (B, K), or, where it has none, to its class logits (B, C)."""

    def __init__(self, encoder: nn.Module, regularizer: nn.Module, model: nn.Module, read: Any) -> None:
        super().__init__()
        self._reads_concepts = bool(getattr(model, "reads_concepts", True))
        self.encoder, self.regularizer, self.model = encoder, regularizer, model
        self._read = [read]  # in a list: as a submodule it would give every layer a second name
        registers = getattr(encoder, "registers", None)
        prefix = getattr(getattr(encoder, "model", None), "num_prefix_tokens", None)
        if isinstance(registers, Tensor):
            self.num_prefix_tokens = 1 + registers.shape[1]  # class token and registers, which have no place
        elif isinstance(prefix, int):
            self.num_prefix_tokens = prefix

    def forward(self, images: Tensor) -> Tensor:
        output = self._read[0](images)
        logits: Tensor = output.concept_logits if self._reads_concepts else output.logits
        return logits


def _tower(path: Path) -> LoadedModel:
    from conceptlens.runs.opened import OpenedRun

    run = OpenedRun.open(path, device="cpu")
    pipeline, card, concepts = run.pipeline, run.card, run.read_concepts
    tower = ConceptTower(pipeline.encoder, pipeline.regularizer, pipeline.model, pipeline)
    return LoadedModel(
        name=f"run {path.resolve().name}",
        module=tower.eval(),
        image_size=card.image_size,
        outputs=concepts.names or list(card.classes),
        preprocessing=Preprocessing(source="the run's encoder normalizes by itself"),
        fit=card.fit,
        window=card.window,
        target="logit" if len(concepts) or card.task == "multilabel" else "probability",
        what="concept" if len(concepts) else "class",
    )
