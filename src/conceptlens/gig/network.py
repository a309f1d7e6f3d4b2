"""Any torch vision model split at named layers: vectors of a layer, and the sub-network F_ab between two (Eq. 3).

Nothing of the model is rewritten. A layer is read, or replaced, by hooks that live for one pass and are always removed.
To run from a layer onward, the model is called as ever with the layer's value replaced; every module that ends before
the layer hands back a remembered value in no time. If nothing behind the layer looks past it (tried once, by filling
what lies before with NaN), one remembered image serves all others, and the batch may have any size.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.gig.bias_shift import Constants
from conceptlens.gig.hook_points import Call, HookPoint, block_names, find_hook_point, prefix_tokens, recorded
from conceptlens.gig.nested_tensors import mapped, repeated, void, with_first

Key = tuple[str, int]  # a module and which of its calls


class _Reached(Exception):
    """The layer that was asked for has been seen; what follows need not be computed."""


@dataclass
class _Before:
    """What lies before a layer: the outermost modules that end there, and whether anything behind looks at them."""

    keys: dict[Key, Key]  # its number when inner calls are skipped → in a whole pass
    skipped: dict[str, int]  # calls of modules inside of them, which then do not happen
    values: dict[Key, Any] = field(default_factory=dict)
    images: Tensor | None = None  # whose values these are; None where any will do
    sealed: bool = False


class Network:
    """A model and its layers; made by `open_network`."""

    def __init__(self, model: nn.Module, probe: Tensor, output: Callable[[Any], Tensor]) -> None:
        self.model = model
        self.image_shape = tuple(probe.shape[1:])
        self._probe, self._output = probe, output
        self._hook_points: dict[str, HookPoint] = {}
        self._bias_shifts: dict[str, Tensor] = {}
        self._before: dict[str, _Before] = {}
        self._modules = dict(model.named_modules())
        self._calls: list[Call] = []
        self.classes = 0

    @property
    def layers(self) -> tuple[str, ...]:
        """Names, from input to output."""
        return tuple(self._hook_points)

    @property
    def grids(self) -> dict[str, tuple[int, int] | None]:
        """(h, w) of each layer's positions, the prefix aside; None where they form no grid."""
        return {name: point.grid for name, point in self._hook_points.items()}

    @property
    def device(self) -> torch.device:
        return self._probe.device

    def hook_point(self, layer: str) -> HookPoint:
        """Where a layer stands, with its channels, positions and prefix."""
        if layer not in self._hook_points:
            raise UserError(f"The network was not opened at layer {layer!r}. {did_you_mean(layer, self._hook_points)}")
        return self._hook_points[layer]

    def bias_shift(self, layer: str) -> Tensor:
        """μ_BN of Eq. 8, or its counterpart without batch norm, (C,): see `shift`."""
        self.hook_point(layer)
        return self._bias_shifts[layer]

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """(B, classes)."""
        return self._outputs(self._call(images))

    @torch.no_grad()
    def features(self, images: Tensor, layer: str) -> Tensor:
        """Pointwise feature vectors (B, P, C) of a layer."""
        return self.features_of(images, [layer])[layer]

    @torch.no_grad()
    def features_of(self, images: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
        """Vectors (B, P, C) of several layers in one pass."""
        points = [self.hook_point(layer) for layer in layers]
        last = max(points, key=lambda point: point.event)
        with self.watch(layers, stop_at=last.layer) as seen:
            self._call(images)
        return {point.layer: point.vectors(seen[point.layer]) for point in points}

    def onward(self, features: Tensor, frm: str, to: str | None = None, images: Tensor | None = None) -> Tensor:
        """F_ab: from vectors (B, P, C) at layer `frm` to the vectors (B, P', C') at `to`, or to the outputs.

        Args:
            features: What replaces the layer; gradients reach it.
            frm: The earlier layer.
            to: The later layer; None for the outputs (B, classes).
            images: The images (B, 3, H, W) the features belong to, or b of them with b · n = B: n times in a row. They
                are looked at only where something behind the layer looks past it, as in a U-Net.
        """
        start = self.hook_point(frm)
        expected = (start.positions, start.channels)
        if features.ndim != 3 or tuple(features.shape[1:]) != expected:
            raise UserError(
                f"Layer {frm!r} has vectors (B, {expected[0]}, {expected[1]}); got {tuple(features.shape)}."
            )
        end = None if to is None else self.hook_point(to)
        if end is not None and end.event <= start.event:
            raise UserError(f"Layer {to!r} does not come after {frm!r}; the order is {', '.join(self.layers)}.")
        before = self._before_of(start, features, images)
        with ExitStack() as stack:
            stack.enter_context(self._skipping(before, len(features)))
            stack.enter_context(self._replacing(start, features, before.skipped))
            if end is None:
                return self._outputs(self._call(self._stand_in(before, images)))
            seen = stack.enter_context(self.watch([end.layer], stop_at=end.layer, skipped=before.skipped))
            self._call(self._stand_in(before, images))
        return end.vectors(seen[end.layer])

    @contextmanager
    def watch(
        self, layers: Sequence[str], *, stop_at: str | None = None, skipped: Mapping[str, int] | None = None
    ) -> Iterator[dict[str, Tensor]]:
        """Raw values of layers in the passes that run in this context, with their graph; hooks go with the context."""
        seen: dict[str, Tensor] = {}

        def look(point: HookPoint, value: Tensor) -> Tensor:
            if tuple(value.shape[1:]) != point.shape:
                raise UserError(
                    f"Layer {point.layer!r} had the shape {('B', *point.shape)} before and has "
                    f"{tuple(value.shape)} now. Its shape must not change between calls: pass images of "
                    f"{self.image_shape[1]} × {self.image_shape[2]} pixels, and a model without random parts."
                )
            seen[point.layer] = value
            if point.layer == stop_at:
                raise _Reached
            return value.clone()  # whatever is done in place from here on must not change what was seen

        with ExitStack() as stack:
            for layer in layers:
                point = self.hook_point(layer)
                stack.enter_context(self._at(point, partial(look, point), skipped or {}))
            yield seen

    def _call(self, images: Tensor) -> Any:
        """The model's output, or None where the pass ended at a layer."""
        if images.ndim != 4:
            raise UserError(f"Expected images (B, 3, H, W), got {tuple(images.shape)}.")
        try:
            return self.model(images.to(self.device))
        except _Reached:
            return None

    def _outputs(self, returned: Any) -> Tensor:
        outputs = self._output(returned)
        if not isinstance(outputs, Tensor) or outputs.ndim != 2:
            shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise UserError(
                f"The model's output is {shape}; expected numbers (B, classes). Pass `output=` to open_network: a "
                "function from what the model returns to those numbers."
            )
        return outputs

    @contextmanager
    def _at(self, point: HookPoint, change: Callable[[Tensor], Tensor], skipped: Mapping[str, int]) -> Iterator[None]:
        """Pass the value at a hook point through a function."""
        wanted = point.call - skipped.get(point.module, 0)
        number = 0

        def mine() -> bool:
            nonlocal number
            number += 1
            return number - 1 == wanted

        def entering(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            return (change(args[0]), *args[1:]) if mine() else None

        def leaving(_: nn.Module, __: tuple[Any, ...], out: Any) -> Any:
            return with_first(out, change) if mine() else None

        module = self._modules[point.module]
        handle = (
            module.register_forward_pre_hook(entering)
            if point.side == "input"
            else module.register_forward_hook(leaving)
        )
        try:
            yield
        finally:
            handle.remove()

    def _replacing(self, point: HookPoint, features: Tensor, skipped: Mapping[str, int]) -> Any:
        return self._at(point, lambda _: point.raw(features).clone(), skipped)

    @contextmanager
    def _skipping(self, before: _Before, batch: int) -> Iterator[None]:
        """Modules that end before a layer hand back what they are remembered to return."""
        names = {name for name, _ in before.keys}
        counts = dict.fromkeys(names, 0)

        def skip(name: str) -> Callable[..., Any]:
            forward = self._modules[name].forward

            def stand_in(*args: Any, **kwargs: Any) -> Any:
                key = (name, counts[name])
                counts[name] += 1
                if key not in before.values:
                    return forward(*args, **kwargs)
                value = before.values[key]
                return value if before.sealed else repeated(value, batch)

            return stand_in

        try:
            for name in names:
                self._modules[name].forward = skip(name)
            yield
        finally:
            for name in names:
                self._modules[name].__dict__.pop("forward", None)

    def _stand_in(self, before: _Before, images: Tensor | None) -> Tensor:
        return self._probe if before.sealed or images is None else images

    def _before_of(self, point: HookPoint, features: Tensor, images: Tensor | None) -> _Before:
        """What lies before a layer, with values that fit these images."""
        before = self._before.get(point.layer)
        if before is None:
            before = self._before[point.layer] = self._try_sealed(point)
        if before.sealed:
            return before
        if images is None:
            raise UserError(
                f"A later part of the network reads what lies before layer {point.layer!r}: pass `images` to `onward`."
            )
        if len(images) == 0 or len(features) % len(images):
            raise UserError(
                f"Expected equally many feature maps for each image, got {len(features)} for {len(images)} images."
            )
        if images.stride(0) == 0:
            images = images[:1]  # one image, spread over the batch
        same = before.images
        if same is None or (same is not images and not (same.shape == images.shape and torch.equal(same, images))):
            before.values = self._values(before, images)
            before.images = images
        return before

    @torch.no_grad()
    def _values(self, before: _Before, images: Tensor) -> dict[Key, Any]:
        """What the modules before a layer return for these images."""
        wanted = {whole: near for near, whole in before.keys.items()}
        found: dict[Key, Any] = {}

        def keep(name: str) -> Callable[..., None]:
            numbers = count()

            def hook(_: nn.Module, __: tuple[Any, ...], returned: Any) -> None:
                key = wanted.get((name, next(numbers)))
                if key is not None:  # copied at once: the next module may work in place
                    found[key] = mapped(returned, lambda tensor: tensor.detach().clone())

            return hook

        handles = [self._modules[name].register_forward_hook(keep(name)) for name in {name for name, _ in wanted}]
        try:
            self._call(images)
        finally:
            for handle in handles:
                handle.remove()
        return found

    @torch.no_grad()
    def _try_sealed(self, point: HookPoint) -> _Before:
        """Find what ends before a layer, and whether the rest of the network does without it."""
        done = [call for call in self._calls if call.end < point.event]
        outer = [call for call in done if not any(other.holds(call) for other in done)]
        inner = [call for call in done if any(other.holds(call) for other in outer)]
        keys = {}
        for call in outer:
            missing = sum(other.name == call.name and other.begin < call.begin for other in inner)
            keys[call.name, call.number - missing] = (call.name, call.number)
        skipped = dict(Counter(call.name for call in inner))
        before = _Before(keys, skipped)
        before.values = self._values(before, self._probe)
        truth = self.logits(self._probe)
        features = self.features(self._probe, point.layer)
        empty = _Before(before.keys, skipped, {key: void(v) for key, v in before.values.items()}, sealed=True)
        try:
            with self._skipping(empty, 2), self._replacing(point, features.repeat(2, 1, 1), skipped):
                found = self._outputs(self._call(self._probe))
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, UserError):
            before.values = {}
            return before  # its shapes do not fit: what follows looks at the batch as it was
        before.sealed = len(found) == 2 and torch.allclose(found, truth.expand_as(found), rtol=1e-3, atol=1e-4)
        return before

    def _find(self, layers: Sequence[str], before_activation: bool) -> None:
        """One pass of the probe: hook points, shifts and what is called when."""
        with torch.no_grad(), Constants() as constants, recorded(self.model, constants.of) as calls:
            returned = self._call(self._probe)
        self.classes = int(self._outputs(returned).shape[1])
        prefix = prefix_tokens(self.model, calls)
        points = [
            find_hook_point(self.model, layer, calls, prefix, before_activation=before_activation) for layer in layers
        ]
        for point in sorted(points, key=lambda point: point.event):
            call = next(c for c in calls if (c.name, c.number) == (point.module, point.call))
            constant: Tensor | None = call.noted[0 if point.side == "input" else 1]
            zeros = torch.zeros(point.channels, device=self.device, dtype=self._probe.dtype)
            fits = constant is not None and constant.numel() == point.channels
            self._bias_shifts[point.layer] = constant.reshape(-1).clone() if constant is not None and fits else zeros
            self._hook_points[point.layer] = point
        for call in calls:
            call.returned = None  # the order is kept, the values are not
        self._calls = calls

    def _check_gradient(self) -> None:
        """A gradient must come back from the outputs to every layer."""
        with torch.enable_grad(), self.watch(self.layers) as seen:
            outputs = self._outputs(self._call(self._probe.clone().requires_grad_()))
        for layer in self.layers:
            if outputs.requires_grad and seen[layer].requires_grad:
                found = torch.autograd.grad(outputs.sum(), seen[layer], retain_graph=True, allow_unused=True)[0]
                if found is not None:
                    continue
            raise UserError(
                f"No gradient passes from the outputs back to layer {layer!r}: something between them is not "
                "differentiable (argmax, rounding, detach, no_grad). Choose a layer behind it, or a model without it."
            )


def open_network(
    model: nn.Module,
    layers: Sequence[str] | None = None,
    *,
    image_size: int | tuple[int, int] = 224,
    output: Callable[[Any], Tensor] | None = None,
    before_activation: bool = True,
    channels: int = 3,
) -> Network:
    """Split a model at layers. It is put into evaluation mode, its parameters at rest.

    Args:
        model: From images (B, 3, H, W) to logits: a timm or torchvision model, or your own.
        layers: Dotted module names, as in `model.named_modules()`; by default the blocks that the network repeats.
        image_size: Side of the (square) images, or height and width.
        output: From what the model returns to (B, classes); by default the tensor itself, or its `logits`.
        before_activation: Vectors of a layer that ends in an activation function are those before it, as in the paper.
        channels: Of the images.

    Raises:
        UserError: A layer does not exist, is never called or has no vectors; the outputs are not (B, classes); the
            model is not differentiable between a layer and its outputs.
    """
    known = [name for name, _ in model.named_modules() if name]
    chosen = list(dict.fromkeys(layers)) if layers is not None else list(block_names(model))
    if not chosen:
        raise UserError("No layers: expected names of modules, as in `model.named_modules()`.")
    for name in chosen:
        if name not in known:
            raise _no_such_layer(name, known)
    model.eval().requires_grad_(False)
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(1))
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(1, channels, height, width, generator=generator).to(like)
    network = Network(model, probe, output or logits_of)
    try:
        network._find(chosen, before_activation)
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"The model does not take images {('B', *probe.shape[1:])}: {reason}. Set image_size to what it expects."
        ) from error
    network._check_gradient()
    return network


def _no_such_layer(name: str, known: Sequence[str]) -> UserError:
    close = get_close_matches(name, known, n=6, cutoff=0.5)
    near = [other for other in known if other.startswith(name)][:6]
    hint = ", ".join(repr(other) for other in dict.fromkeys([*near, *close]))
    suggestion = f"Close ones: {hint}." if hint else did_you_mean(name, known)
    return UserError(f"The model has no layer {name!r}. {suggestion}")


def logits_of(returned: Any) -> Tensor:
    """The outputs in what a model returns: a tensor, or the `logits` of an object."""
    found: Any = getattr(returned, "logits", returned)
    if isinstance(found, Mapping):
        found = found.get("logits", found)
    if isinstance(found, (tuple, list)) and found:
        found = found[0]
    return found  # type: ignore[no-any-return]
