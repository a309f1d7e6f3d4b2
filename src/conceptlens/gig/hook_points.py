"""Where a layer's pointwise feature vectors stand in a network: which call of which module, before or after it.

GIG paper, Sec. 3.1: the vectors of a layer are taken *before* its activation function. A layer is any named module. If
what it returns is what an activation module inside of it returned, its vectors are that activation's input; otherwise
they are what it returns. All of this is seen in one pass of one image.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.gig.nested_tensors import first_tensor

Layout = Literal["map", "map, channels last", "tokens", "vector"]
Side = Literal["input", "output"]

ACTIVATIONS = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish),
    *(nn.Softplus, nn.Tanh, nn.Hardtanh),
)


@dataclass(eq=False)
class Call:
    """One call of a module within a pass."""

    name: str
    number: int  # which call of this module, from 0
    begin: int  # events are counted through the pass: a module begins, a module ends
    end: int
    returned: Any
    noted: list[Any] = field(default_factory=list)  # of its first input, and of what it returned

    def holds(self, other: "Call") -> bool:
        """Whether the other call happens within this one."""
        return self.begin < other.begin and other.end < self.end


@dataclass(frozen=True)
class HookPoint:
    """Where the vectors of one layer stand."""

    layer: str
    module: str
    call: int  # which call of the module, from 0
    side: Side
    event: int  # its place in the pass
    layout: Layout
    shape: tuple[int, ...]  # of the raw value, without the batch
    prefix: int = 0  # class token and registers, before the patches

    @property
    def grid(self) -> tuple[int, int] | None:
        """(h, w) of the positions behind the prefix, where they form a square or a map."""
        if self.layout == "map":
            return self.shape[1], self.shape[2]
        if self.layout == "map, channels last":
            return self.shape[0], self.shape[1]
        side = round((self.positions - self.prefix) ** 0.5)
        return (side, side) if side * side == self.positions - self.prefix else None

    @property
    def channels(self) -> int:
        return self.shape[0] if self.layout == "map" else self.shape[-1]

    @property
    def positions(self) -> int:
        size = 1
        for side in self.shape:
            size *= side
        return size // self.channels

    def vectors(self, raw: Tensor) -> Tensor:
        """The raw value as (B, P, C)."""
        if self.layout == "map":
            return raw.flatten(2).transpose(1, 2)
        return raw.reshape(len(raw), self.positions, self.channels)

    def raw(self, vectors: Tensor) -> Tensor:
        """(B, P, C) as the network has it."""
        if self.layout == "map":
            vectors = vectors.transpose(1, 2)
        return vectors.reshape(len(vectors), *self.shape)


@contextmanager
def recorded(model: nn.Module, note: Callable[[Tensor | None], Any] = lambda value: None) -> Iterator[list[Call]]:
    """Every call of every module while the context lasts, in the order in which they begin.

    Args:
        model: Its modules are hooked; the hooks go with the context.
        note: Asked of the first tensor that a module is given, and of the first that it returns, at that moment: later
            modules may overwrite them.
    """
    calls: list[Call] = []
    open_: list[Call] = []
    numbers: dict[str, int] = {}
    clock = count()
    handles: list[Any] = []

    def begin(name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            number = numbers[name] = numbers.get(name, -1) + 1
            noted = [note(first_tensor([*args, *kwargs.values()]))]
            calls.append(Call(name, number, next(clock), -1, None, noted))
            open_.append(calls[-1])

        return hook

    def end(_: nn.Module, __: tuple[Any, ...], returned: Any) -> None:
        call = open_.pop()
        call.end, call.returned = next(clock), returned
        call.noted.append(note(first_tensor(returned)))

    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(begin(name), with_kwargs=True))
            handles.append(module.register_forward_hook(end))
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def find_hook_point(
    model: nn.Module, layer: str, calls: list[Call], prefix: int, *, before_activation: bool
) -> HookPoint:
    """Where the vectors of a layer stand, given the calls of one pass."""
    mine = [call for call in calls if call.name == layer]
    if not mine:
        raise UserError(f"Layer {layer!r} is never called when an image passes; name one that is.")
    if len(mine) > 1:
        raise UserError(
            f"Layer {layer!r} is called {len(mine)} times in one pass, so that it has no single place. "
            "Name a layer around it that is called once."
        )
    (call,) = mine
    out = first_tensor(call.returned)
    if out is None or not out.is_floating_point() or out.ndim not in (2, 3, 4):
        returned = type(call.returned).__name__ if out is None else f"a tensor of shape {tuple(out.shape)}"
        raise UserError(
            f"Layer {layer!r} returns {returned}; expected a map (B, C, H, W), tokens (B, N, C) or a vector (B, C)."
        )
    last: Call | None = None
    if before_activation:
        inner = (other for other in calls if other is call or call.holds(other))
        acts = [o for o in inner if isinstance(model.get_submodule(o.name), ACTIVATIONS) and o.returned is out]
        last = acts[-1] if acts else None
    layout = _layout(out)
    behind = prefix if layout == "tokens" else 0
    shape = tuple(out.shape[1:])
    if last is not None:
        return HookPoint(layer, last.name, last.number, "input", last.begin, layout, shape, behind)
    return HookPoint(layer, layer, call.number, "output", call.end, layout, shape, behind)


def _layout(value: Tensor) -> Layout:
    if value.ndim == 2:
        return "vector"
    if value.ndim == 3:
        return "tokens"
    _, first, second, third = value.shape
    # A probe image is square, so the two equal sides are the place.
    return "map, channels last" if first == second != third else "map"


def prefix_tokens(model: nn.Module, calls: list[Call]) -> int:
    """Tokens before the patches: what the model says, or what is left over from a square."""
    declared = getattr(model, "num_prefix_tokens", None)
    if isinstance(declared, int):
        return declared
    counts = Counter(int(c.returned.shape[1]) for c in calls if isinstance(c.returned, Tensor) and c.returned.ndim == 3)
    if not counts:
        return 0
    usual = counts.most_common(1)[0][0]  # that of the blocks; a patch embedding may have no prefix yet
    for extra in (0, 1, 2, 5, 9):
        if usual > extra and round((usual - extra) ** 0.5) ** 2 == usual - extra:
            return extra
    return 0


def block_names(model: nn.Module) -> tuple[str, ...]:
    """A good first choice of layers: the blocks that a network repeats, from input to output.

    They are the modules of one class, not one of torch's own, that hold half of the parameters or more: of classes with
    six modules or more the one that holds most, otherwise the most frequent. Without such a class: the convolutions.
    """
    classes: dict[type[nn.Module], list[str]] = {}
    for name, module in model.named_modules():
        own = not type(module).__module__.startswith("torch.nn")
        if name and own and any(True for _ in module.children()) and any(True for _ in module.parameters()):
            classes.setdefault(type(module), []).append(name)
    repeated = {kind: _outermost(names) for kind, names in classes.items()}
    repeated = {kind: names for kind, names in repeated.items() if len(names) > 1}
    whole = sum(p.numel() for p in model.parameters())
    weighty = {tuple(names): size for names in repeated.values() if (size := _parameters(model, names)) >= whole / 2}
    if weighty:
        return max(weighty, key=lambda names: (min(len(names), 6), weighty[names]))
    return tuple(name for name, module in model.named_modules() if isinstance(module, nn.Conv2d))


def _outermost(names: list[str]) -> list[str]:
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]


def _parameters(model: nn.Module, names: list[str]) -> int:
    return sum(p.numel() for name in names for p in model.get_submodule(name).parameters())
