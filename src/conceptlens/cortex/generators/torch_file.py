"""Tensors of a PyTorch file (.ckpt, .pt, .pth), read as data: nothing in the file is ever imported, called or run.

Such a file is a zip with the numbers of each tensor and a pickle, a small program that names functions to call. Here
the program's steps are only looked at: numbers, words, lists and dictionaries are built, the call that makes a tensor
is recognized by its name, and every other function is a name without effect. Calls of anything that checkpoints of
networks do not need are refused: a file with code in it is not one to work with.
"""

import math
import pickletools
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
# Modules whose objects training frameworks leave in checkpoints beside the weights; kept as names, never made.
HARMLESS = ("torch", "numpy", "collections", "pytorch_lightning", "lightning", "omegaconf", "argparse", "__builtin__")
HARMLESS_BUILTINS = (
    *("set", "dict", "list", "OrderedDict", "frozenset", "tuple", "int", "float", "slice", "complex", "bytes"),
    *("bytearray", "object"),
)
_VALUES = (
    *(
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "UNICODE",
        "BININT",
        "BININT1",
        "BININT2",
        "INT",
        "LONG",
        "LONG1",
    ),
    *("LONG4", "BINFLOAT", "FLOAT", "BINSTRING", "SHORT_BINSTRING", "STRING", "BINBYTES", "SHORT_BINBYTES"),
    *("BINBYTES8", "BYTEARRAY8"),
)
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """A function or class that the file names."""

    module: str
    name: str


@dataclass(frozen=True)
class _Storage:
    dtype: torch.dtype
    key: str


class _Inert:
    """What a call that is not followed would have made."""


def read_torch_file(path: Path) -> dict[str, Any]:
    """The dictionary that the file holds; tensors as tensors, unknown objects as inert placeholders."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = {name.partition("/")[2]: name for name in archive.namelist()}
            if "data.pkl" not in inside:
                raise UserError(f"{path}: expected a PyTorch file with data.pkl in it; found another kind of zip.")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise UserError(f"{path}: its parts are compressed, as PyTorch never writes them; it is not unpacked.")
            reader = _Reader(path, archive, inside)
            found = reader.run(archive.read(inside["data.pkl"]))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file.") from None
    except (zipfile.BadZipFile, IsADirectoryError, NotImplementedError, RuntimeError, EOFError, ValueError):
        raise UserError(
            f"{path}: expected a PyTorch file of version 1.6 or later, or safetensors. Save older ones again with a "
            "newer PyTorch, as safetensors."
        ) from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: expected a dictionary of tensors, found {type(found).__name__}.")
    return found


def tensors_of(found: dict[str, Any], path: Path) -> dict[str, Tensor]:
    """The network's tensors by name, under `state_dict` or at the top."""
    inner = next((found[key] for key in ("state_dict", "model", "module") if key in found), found)
    state = (
        {str(name): value for name, value in inner.items() if isinstance(value, Tensor)}
        if isinstance(inner, dict)
        else {}
    )
    if not state:
        raise UserError(f"{path}: no tensors found, neither at the top nor under `state_dict`, `model` or `module`.")
    return state


MOST_REPEATED = 100_000_000  # numbers of a tensor that names some of its own more than once


class _Reader:
    """Walks the steps of a pickle with a stack and a memory of its own."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, inside: dict[str, str]) -> None:
        self.path, self.archive, self.inside = path, archive, inside
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def run(self, program: bytes) -> Any:
        try:
            for opcode, argument, _ in pickletools.genops(program):
                if opcode.name == "STOP":
                    return self.stack.pop()
                self.step(opcode.name, argument)
        except UserError:
            raise
        except Exception as error:
            # A broken or hostile program fails in every possible way; for the reader it is one: not readable.
            raise UserError(f"{self.path}: this checkpoint cannot be read as data ({error}).") from None
        raise UserError(f"{self.path}: this checkpoint is cut short.")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name == "MARK":
            stack.append(_MARK)
        elif name in _VALUES:
            stack.append(argument)
        elif name in ("NONE", "NEWTRUE", "NEWFALSE"):
            stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
        elif name.startswith("EMPTY_"):
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set}[name]())
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memory[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memory[len(self.memory)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memory[argument])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "TUPLE":
            stack.append(tuple(self.since_mark()))
        elif name == "LIST":
            stack.append(self.since_mark())
        elif name == "DICT":
            stack.append(_pairs({}, self.since_mark()))
        elif name == "APPEND":
            value = stack.pop()
            _extend(stack[-1], [value])
        elif name in ("APPENDS", "ADDITEMS"):
            _extend_top(stack, self.since_mark())
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _pairs(stack[-1], [key, value])
        elif name == "SETITEMS":
            values = self.since_mark()
            _pairs(stack[-1], values)
        elif name == "GLOBAL":
            stack.append(_Name(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            word, module = stack.pop(), stack.pop()
            stack.append(_Name(module, word))
        elif name in ("REDUCE", "NEWOBJ"):
            given, function = stack.pop(), stack.pop()
            stack.append(self.call(function, given))
        elif name == "NEWOBJ_EX":
            _, given, function = stack.pop(), stack.pop(), stack.pop()
            stack.append(self.call(function, given))
        elif name == "BUILD":
            stack.pop()  # attributes of an object that is not made
        elif name == "BINPERSID":
            stack.append(self.storage(stack.pop()))
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self.since_mark()
        elif name == "DUP":
            stack.append(stack[-1])
        else:  # INST, OBJ, EXT*, PERSID, buffers: no PyTorch file has them
            raise UserError(f"{self.path}: this checkpoint has a step that data do not need ({name}); it is refused.")

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def call(self, function: Any, given: Any) -> Any:
        if not isinstance(function, _Name):
            return _Inert()
        if function.module == "torch._utils" and function.name.startswith("_rebuild_tensor"):
            return self.tensor(given)
        if (function.module, function.name) == ("torch._utils", "_rebuild_parameter"):
            return given[0]
        if (function.module, function.name) == ("collections", "OrderedDict"):
            return dict(given[0]) if given else {}
        if (function.module, function.name) == ("_codecs", "encode") and _is_latin1(given):
            return given[0].encode("latin1")  # how protocol 2 writes bytes, those of numpy's numbers among them
        root = function.module.partition(".")[0]
        if root in ("builtins", "__builtin__") and function.name not in HARMLESS_BUILTINS:
            raise self.code(function)
        if root not in (*HARMLESS, "builtins"):
            raise self.code(function)
        return _Inert()

    def code(self, function: _Name) -> UserError:
        return UserError(
            f"{self.path}: this checkpoint holds code: it would call {function.module}.{function.name} when opened. "
            "It is not loaded, and nothing of it was run. Ask whoever made it for safetensors."
        )

    def storage(self, identity: Any) -> _Storage:
        kind, storage, key, *_ = identity
        if kind != "storage" or not isinstance(storage, _Name) or storage.name not in STORAGES:
            raise UserError(f"{self.path}: expected tensors of plain numbers, found {identity!r}.")
        return _Storage(STORAGES[storage.name], str(key))

    def tensor(self, given: Any) -> Tensor:
        storage, offset, size, stride = given[:4]
        entry = self.inside.get(f"data/{storage.key}")
        if entry is None:
            raise UserError(
                f"{self.path}: the numbers of a tensor are missing (data/{storage.key}): the file is damaged."
            )
        data = bytearray(self.archive.read(entry))
        flat = torch.frombuffer(data, dtype=storage.dtype) if data else torch.empty(0, dtype=storage.dtype)
        if math.prod(map(int, size)) > max(len(flat), MOST_REPEATED):
            raise UserError(f"{self.path}: a tensor of {tuple(size)} repeats {len(flat):,} numbers; it is refused.")
        return flat.as_strided(tuple(size), tuple(stride), int(offset)).clone()


def _is_latin1(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and given[1] == "latin1"


def _extend(target: Any, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, set):
        target.update(value for value in values if isinstance(value, str | int | float | tuple))


def _extend_top(stack: list[Any], values: list[Any]) -> None:
    _extend(stack[-1], values)


def _pairs(target: Any, values: list[Any]) -> Any:
    if isinstance(target, dict):
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[key if isinstance(key, str | int | float | bool | tuple) else str(key)] = value
    return target
