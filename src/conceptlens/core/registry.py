"""Methods, regularizers, encoders and data sources by name; each is imported only when asked for.

A name comes from the package, from `register_…`, or from an installed package's entry points (`conceptlens.methods`,
`conceptlens.regularizers`, `conceptlens.encoders`, `conceptlens.data_sources`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatch
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.plugins import is_code, load_object

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILTIN_DATA = ("blood-cells", "blood-cells-off-center", "shapes")
METHOD_PRESETS = Path(__file__).parents[1] / "methods" / "presets"
RETIRED = "retired"  # its folder of presets that no list has; each says in a line `retired:` what to take instead


class Registry:
    """Name → object. An entry is `module:attribute`, which is imported when asked for, or the object itself.

    Args:
        kind: What it holds, for errors.
        group: The group of entry points.
        entries: What comes with the package; called when the first name is asked for.
        reserved: Names that are resolved elsewhere and cannot be taken.
        retired: What came with the package once: still found by its name, but in no list.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        entries: Callable[[], Mapping[str, str]] = dict,
        reserved: Iterable[str] = (),
        retired: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.kind, self.group, self._packaged, self.reserved = kind, group, entries, tuple(reserved)
        self._retired = retired

    @cached_property
    def entries(self) -> dict[str, Any]:
        """What comes with the package and what was registered, without entry points."""
        return dict(self._packaged())

    @cached_property
    def retired(self) -> dict[str, str]:
        """`module:attribute` by the names that no list has anymore."""
        return dict(self._retired())

    @cached_property
    def installed(self) -> "dict[str, EntryPoint]":
        """Entry points of installed packages; they are found without importing them."""
        from importlib.metadata import entry_points  # here and below: `import conceptlens` stays instant

        return {point.name: point for point in entry_points(group=self.group)}

    def __contains__(self, name: object) -> bool:
        return name in self.entries or name in self.installed or name in self.retired

    def names(self, pattern: str = "*") -> list[str]:
        """Names that match a pattern such as `*cbm*`."""
        return sorted(name for name in {*self.entries, *self.installed} if fnmatch(name, pattern))

    def register(self, name: str, value: Any, *, replace: bool = False) -> None:
        """Add an object, or `module:attribute`, under a name."""
        taken = any(name == word or (word.endswith(("/", ":")) and name.startswith(word)) for word in self.reserved)
        if taken or is_code(name) or not name.strip():
            raise UserError(f"{name!r} cannot be the name of a {self.kind}. Choose a plain word, such as peak-cbm.")
        if name in self and not replace:
            raise UserError(f"A {self.kind} {name!r} exists already. Choose another name, or pass replace=True.")
        self.entries[name] = value

    def get(self, name: str) -> Any:
        """The object; `file.py:Class` and `package.module:Class` are loaded where the user named or allowed them."""
        if name in self.entries or (name in self.retired and name not in self.installed):
            entry = self.entries.get(name) or self.retired[name]
            if not isinstance(entry, str):
                return entry
            module, attribute = entry.split(":")
            return getattr(import_module(module), attribute)
        if is_code(name):
            return load_object(name)
        if name not in self.installed:
            raise unknown_name(self.kind, name, self.names())
        point = self.installed[name]
        try:
            return point.load()
        except Exception as error:  # anything may happen in another package; it must not break the rest
            package = point.dist.name if point.dist else "an installed package"
            raise UserError(
                f"The {self.kind} {name!r} of the package {package!r} ({point.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}. Update or uninstall the package."
            ) from error


def _scan_presets(folder: Path = METHOD_PRESETS) -> dict[str, str]:
    """The package's methods: a preset names its class in a line `class: module:Class`."""
    classes = {}
    for path in sorted(folder.glob("*.yaml")):
        line = re.search(r"^class: *(\S+)", path.read_text("utf-8"), re.MULTILINE)
        if line is not None:
            classes[path.stem] = line[1]
    return classes


METHODS = Registry(
    "method", "conceptlens.methods", _scan_presets, retired=lambda: _scan_presets(METHOD_PRESETS / RETIRED)
)
REGULARIZERS = Registry(
    "regularizer",
    "conceptlens.regularizers",
    lambda: {
        "none": "conceptlens.nn.regularizers.regularizer:NoRegularizer",
        "ivq": "conceptlens.nn.quantization.quantization:ImplicitVQ",
        "explicit-vq": "conceptlens.nn.quantization.quantization:ExplicitVQ",
        "explicit-vq-ema": "conceptlens.nn.quantization.library_vq:EmaVQ",
        "explicit-vq-rotation": "conceptlens.nn.quantization.library_vq:RotationVQ",
        "barlow-twins": "conceptlens.nn.regularizers.barlow_twins:BarlowTwins",
        "spectral-norm": "conceptlens.nn.regularizers.spectral_norm:SpectralNorm",
        "gram": "conceptlens.nn.regularizers.gram:Gram",
        "l2": "conceptlens.nn.quantization.quantization:PlainL2",
    },
)
ENCODERS = Registry("encoder", "conceptlens.encoders", reserved=("builtin/", "timm/", "open_clip/", "transformers/"))
DATA_SOURCES = Registry("data source", "conceptlens.data_sources", reserved=("hf:", *BUILTIN_DATA))
LOSSES = Registry("loss", "conceptlens.losses")
METRICS = Registry("metric", "conceptlens.metrics")
PRESETS: dict[str, Mapping[str, Any]] = {}  # of registered methods, as the files in methods/presets
CARDS: dict[str, str] = {}  # of registered methods, as the files in methods/cards


def register_method(
    name: str,
    cls: type,
    preset: Mapping[str, Any] | str | Path | None = None,
    card: str | Path | None = None,
    *,
    replace: bool = False,
) -> None:
    """Add a method, which recipes can then name.

    Args:
        name: As in `method: NAME`.
        cls: A `ConceptModel`.
        preset: What a recipe starts from, as a mapping or a YAML file; the class's `preset` if not given.
        card: A Markdown file with front matter, as those in `methods/cards`, for the web page.
        replace: Replace a method of this name.

    >>> import conceptlens as cl
    >>> cl.register_method("peak-cbm", PeakCBM)  # doctest: +SKIP
    """
    from conceptlens.core.files import read_yaml

    settings = preset if preset is None or isinstance(preset, Mapping) else read_yaml(Path(preset))
    text = None if card is None else Path(card).read_text("utf-8")
    METHODS.register(name, cls, replace=replace)
    PRESETS[name] = dict(settings if settings is not None else getattr(cls, "preset", {}))
    CARDS.pop(name, None)
    if text is not None:
        CARDS[name] = text


def register_regularizer(name: str, cls: type, *, replace: bool = False) -> None:
    """Add a regularizer of tokens, as in `regularizer: NAME`.

    Args:
        name: A plain word.
        cls: Derives from `conceptlens.nn.regularizers.regularizer.Regularizer`.
        replace: Replace an existing one of this name.

    >>> import conceptlens as cl
    >>> cl.register_regularizer("smooth", Smooth)  # doctest: +SKIP
    """
    REGULARIZERS.register(name, cls, replace=replace)


def register_encoder(name: str, factory: Callable[..., Any], *, replace: bool = False) -> None:
    """Add an image encoder, as in `encoder: {name: NAME}`.

    Args:
        name: Not one that starts with `builtin/`, `timm/`, `open_clip/` or `transformers/`.
        factory: Returns an `Encoder`; takes `layers`, `final_norm`, `pretrained`, where a recipe sets them `image_size`
            and `weights`, and the recipe's `encoder.options`, all by keyword. With `pretrained` false it must not
            download anything: the weights of a trained run come with the run.
        replace: Replace an encoder of this name.

    >>> import conceptlens as cl
    >>> cl.register_encoder("mine/small", lambda **options: SmallEncoder())  # doctest: +SKIP
    """
    ENCODERS.register(name, factory, replace=replace)


def register_data_source(name: str, opener: Callable[..., Any], *, replace: bool = False) -> None:
    """Add a data source, as in `data: NAME`.

    Args:
        name: Not one of the built-in data.
        opener: Takes the recipe's `DataConfig` and its `ConceptSet` or None; returns a `DataSource` and a `ConceptSet`.
        replace: Replace a source of this name.

    >>> import conceptlens as cl
    >>> cl.register_data_source("ponds", open_ponds)  # doctest: +SKIP
    """
    DATA_SOURCES.register(name, opener, replace=replace)


def register_loss(name: str, function: Callable[..., Any], *, replace: bool = False) -> None:
    """Add a loss, which a recipe uses as `training.loss.own: {NAME: weight}`.

    Args:
        name: A plain word.
        function: From a `ConceptOutput` and `Targets` (labels and concepts of B images) to one value an image, (B,).
        replace: Replace an existing one of this name.

    >>> import conceptlens as cl
    >>> cl.register_loss("small-scores", lambda output, targets: output.concept_logits.square().mean(1), replace=True)
    """
    LOSSES.register(name, function, replace=replace)


def register_metric(name: str, function: Callable[..., Any], *, replace: bool = False) -> None:
    """Add a measure of class predictions, which a recipe asks for as `metrics.own: [NAME]`.

    Args:
        name: A plain word.
        function: From probabilities (N, C) and labels (N,), or (N, C) for several labels an image, to a number; images
            without a label are left out.
        replace: Replace an existing one of this name.

    >>> import conceptlens as cl
    >>> cl.register_metric("mean-top", lambda probabilities, labels: float(probabilities.max(1).mean()), replace=True)
    """
    METRICS.register(name, function, replace=replace)


def list_methods(pattern: str = "*") -> list[str]:
    """Names of methods that match a pattern.

    Args:
        pattern: Such as `*cbm*`; all by default.

    >>> import conceptlens as cl
    >>> cl.list_methods("cem*")
    ['cem']
    """
    return METHODS.names(pattern)


def list_regularizers(pattern: str = "*") -> list[str]:
    """Names of regularizers that match a pattern.

    Args:
        pattern: Such as `explicit-*`; all by default.

    >>> import conceptlens as cl
    >>> cl.list_regularizers("explicit-vq-*")
    ['explicit-vq-ema', 'explicit-vq-rotation']
    """
    return REGULARIZERS.names(pattern)


def list_data_sources(pattern: str = "*") -> list[str]:
    """Names of data sources that match a pattern.

    Args:
        pattern: Such as `blood*`; all by default.

    >>> import conceptlens as cl
    >>> cl.list_data_sources("shape*")
    ['shapes']
    """
    return sorted(name for name in (*BUILTIN_DATA, *DATA_SOURCES.names()) if fnmatch(name, pattern))
