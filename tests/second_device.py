"""A second device without a GPU: its tensors say they lie on `meta`, and refuse to be mixed with those of the host.

Each keeps its numbers in a tensor of the host, where every operation runs, so that results are those of the host. What
a GPU refuses is refused here: operations on tensors of both devices, generators of the wrong one, reading its memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

FAR = torch.device("meta")
MOVES = {"aten::copy_", "aten::_to_copy", "aten::set_"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}  # by tensors of the host too
ALIKE = {"aten::cat", "aten::stack"}  # not even a number of the host


class FarTensor(Tensor):
    """A tensor of the far device."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> "FarTensor":
        made: FarTensor = Tensor._make_wrapper_subclass(
            cls, near.shape, near.stride(), near.storage_offset(), dtype=near.dtype, device=FAR
        )
        made.near = near
        return made

    def __init__(self, near: Tensor) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"far {self.near!r}"

    def __getitem__(self, index: Any) -> Tensor:
        return super().__getitem__(_with_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_with_tensors(index), value)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __deepcopy__(self, memo: Any) -> Any:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        return torch.nn.Parameter(copied, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copied


def _with_tensors(index: Any) -> Any:
    """A list of numbers in an index would lose them on `meta`."""
    if isinstance(index, tuple):
        return tuple(_with_tensors(part) for part in index)
    return torch.tensor(index) if isinstance(index, list) else index


class FarGenerator(torch.Generator):
    """`torch.Generator` that can be asked for one of the far device; it draws what one of the host draws."""

    far: ClassVar[set[int]] = set()  # which they are: an operation sees another object for the same generator

    def __new__(cls, device: Any = "cpu") -> "FarGenerator":
        made = super().__new__(cls, "cpu")
        if torch.device(device).type == FAR.type:
            cls.far.add(made._cdata)  # type: ignore[attr-defined]
        else:
            cls.far.discard(made._cdata)  # type: ignore[attr-defined]
        return made

    @property
    def device(self) -> torch.device:
        return FAR if self._cdata in self.far else torch.device("cpu")  # type: ignore[attr-defined]


class _Factories(TorchDispatchMode):
    """What is made on the far device, or moved there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name
    given = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor | torch._C.Generator)]
    tensors = [value for value in given if isinstance(value, Tensor)]
    far = any(isinstance(value, FarTensor) for value in tensors)
    asked = kwargs.get("device")
    there = far if asked is None else torch.device(asked).type == FAR.type
    if any(value.device.type == FAR.type and not isinstance(value, FarTensor) for value in tensors):
        raise AssertionError(f"{name}: a tensor on meta without numbers; this helper lacks something")
    if far and name not in MOVES:
        strict = [args[0]] if name in INDEXED else tensors
        for value in strict:
            if not isinstance(value, FarTensor) and (value.ndim or name in ALIKE):
                raise RuntimeError(f"{name}: expected all tensors on the same device, got far and {value.device}")
    for value in given:
        if isinstance(value, torch._C.Generator) and (value._cdata in FarGenerator.far) != there:
            raise RuntimeError(f"{name}: a generator of the wrong device")
    near_args, near_kwargs = tree_map_only(FarTensor, lambda value: value.near, (args, kwargs))
    if asked is not None:
        near_kwargs["device"] = torch.device("cpu")
    found = func(*near_args, **near_kwargs)
    changed = func._schema.is_mutable and name.endswith("_") and args and isinstance(args[0], Tensor)
    if changed:
        return args[0]
    return tree_map_only(Tensor, FarTensor, found) if there else found


class FarAutocast(torch.autocast):
    """Of the far device there is none: that of the host, which is off wherever the device is no GPU."""

    def __init__(self, device_type: str, *args: Any, **more: Any) -> None:
        super().__init__("cpu" if device_type == FAR.type else device_type, *args, **more)


def _made_near(make: Any) -> Any:
    """`torch.tensor` and `as_tensor` leave no numbers behind on `meta`: they are made on the host and moved."""

    def made(data: Any, *, device: Any = None, **more: Any) -> Tensor:
        found: Tensor = make(data, **more)
        return found if device is None else found.to(device)

    return made


@contextmanager
def second_device() -> Iterator[torch.device]:
    """While it lasts, the best device is one that is not the host's."""
    kinds = {"Generator": FarGenerator, "autocast": FarAutocast}
    made = {name: _made_near(getattr(torch, name)) for name in ("tensor", "as_tensor")}
    with _Factories(), mock.patch.multiple(torch, **kinds, **made):
        yield FAR
