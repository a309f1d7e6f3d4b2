"""The parts of a timm model: its blocks, what follows them, and the head that tokens never pass."""

import re

from torch import nn

# By timm's convention these belong to `forward_head`, which comes after the tokens.
HEAD = frozenset(
    (
        "head",
        "head_dist",
        "head_norm",
        "norm_head",
        "fc",
        "fc_norm",
        "classifier",
        "attn_pool",
        "global_pool",
        "pre_logits",
    )
)
STAGES = ("blocks", "stages", "layers")
NUMBERED = re.compile(r"(layer|stage|block)_?\d+")


def is_head(name: str) -> bool:
    """Whether a module or a tensor of this dotted name belongs to the head."""
    return name.partition(".")[0] in HEAD


def strip_head(model: nn.Module) -> None:
    """Put an identity in place of every part of the head: its parameters would never see a gradient."""
    for name, child in list(model.named_children()):
        if is_head(name) and next(child.parameters(), None) is not None:
            setattr(model, name, nn.Identity())


def _with_parameters(model: nn.Module) -> dict[str, nn.Module]:
    return {name: child for name, child in model.named_children() if next(child.parameters(), None) is not None}


def split_model(model: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """Blocks (or stages) from input to output, and what follows the last of them."""
    children = _with_parameters(model)
    while len(children) == 1:
        inner = _with_parameters(next(iter(children.values())))
        if not inner:
            break
        children = inner
    names = list(children)
    for name in STAGES:
        container = children.get(name)
        if isinstance(container, nn.ModuleList | nn.Sequential):
            return list(container), [children[after] for after in names[names.index(name) + 1 :]]
    numbered = [name for name in names if NUMBERED.fullmatch(name)]
    if numbered:
        return [children[name] for name in numbered], [
            children[name] for name in names[names.index(numbered[-1]) + 1 :]
        ]
    return list(children.values()), []
