"""Independent judges: networks of other families, trained from scratch on real images, with a head for classes and one
for each attribute. They never see a token. Made once each, then read from their folder."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.files import new_folder, read_json, write_json
from conceptlens.cortex.generators.condition import parse_condition
from conceptlens.cortex.masking import Judge
from conceptlens.encoders.weights_file import load_weights, read_weights
from pretraining.generator.data import Labeled, turned

EPOCHS = {"resnet18": 20, "resnet50": 20, "vit_small_patch16_224": 40, "vit_small_patch8_224": 30}


def _network(name: str, columns: int, size: int) -> nn.Module:
    options: dict[str, Any] = {"img_size": size} if "vit" in name else {}
    return timm.create_model(name, pretrained=False, num_classes=columns, **options)


def _sizes(data: Labeled) -> list[int]:
    return [len(data.classes), *(len(values) for values in data.attributes.values())]


def _loss(logits: Tensor, conditions: Tensor, sizes: Sequence[int]) -> Tensor:
    """Class and the mean of attributes; unknown values do not count."""
    parts = torch.split(logits.float(), list(sizes), 1)
    terms = [F.cross_entropy(part, conditions[:, axis], ignore_index=-1) for axis, part in enumerate(parts)]
    return terms[0] + torch.stack(terms[1:]).mean()


@torch.no_grad()
def _accuracy(network: nn.Module, data: Labeled, device: torch.device) -> dict[str, float]:
    network.eval()
    logits = torch.cat([network(_seen(part.to(device))).float().cpu() for part in torch.split(data.images, 128)])
    found = {}
    for axis, part in enumerate(torch.split(logits, _sizes(data), 1)):
        given = data.conditions[:, axis]
        known = given >= 0
        name = "class" if axis == 0 else list(data.attributes)[axis - 1]
        found[name] = float((part.argmax(1) == given)[known].double().mean())
    return found


def _seen(images: Tensor) -> Tensor:
    """Bytes, or values in [0, 1] → what the networks read."""
    values = images.float() / 255 if images.dtype == torch.uint8 else images
    return (values - 0.5) / 0.25


def train_judge(
    name: str,
    folder: Path,
    train: Labeled,
    test: Labeled,
    device: torch.device,
    *,
    epochs: int | None = None,
    batch: int = 128,
    seed: int = 0,
    note: Callable[[str], object] = print,
) -> None:
    """AdamW with warm-up and a cosine; images in the eight positions of a square, moved by up to eight pixels."""
    if (folder / "judge.json").exists():
        return
    torch.manual_seed(seed)
    sizes = _sizes(train)
    network = _network(name, sum(sizes), train.images.shape[-1]).to(device)
    epochs = epochs or EPOCHS.get(name, 20)
    a_epoch = max(1, len(train) // batch)
    total = epochs * a_epoch
    peak = 5e-4 if "vit" in name else 1e-3
    optimizer = torch.optim.AdamW(network.parameters(), lr=peak, weight_decay=0.05)
    images, conditions = train.images.to(device), train.conditions.to(device)
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        network.train()
        order = torch.randperm(len(train), generator=generator)[: a_epoch * batch]
        for turn, rows in enumerate(torch.split(order, batch)):
            step = epoch * a_epoch + turn
            warm = min(1.0, (step + 1) / max(1, total // 20))
            for group in optimizer.param_groups:
                group["lr"] = peak * warm * (0.01 + 0.99 * (1 + math.cos(math.pi * step / total)) / 2)
            kinds = torch.randint(8, (len(rows),), generator=generator).to(device)
            shift = [int(value) for value in torch.randint(-8, 9, (2,), generator=generator)]
            views = torch.roll(turned(images[rows.to(device)], kinds), shift, (2, 3))
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = network(_seen(views))
            loss = _loss(logits, conditions[rows.to(device)], sizes)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        if epoch % 5 == 4 or epoch == epochs - 1:
            note(f"judge {name}: epoch {epoch + 1} of {epochs}, loss {float(loss.detach()):.3f}")
    card: dict[str, Any] = {
        "network": name,
        "epochs": epochs,
        "images": len(train),
        "image_size": train.images.shape[-1],
        "classes": list(train.classes),
        "attributes": {group: list(values) for group, values in train.attributes.items()},
        "accuracy": _accuracy(network, test, device),
    }
    with new_folder(folder) as aside:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()},
            aside / "judge.safetensors",
        )
        write_json(aside / "judge.json", card)


def open_judge(folder: Path, concepts: Sequence[str], device: torch.device) -> Judge:
    """Probabilities over classes, or over values of one attribute as `group=value`, in that order."""
    card = read_json(folder / "judge.json")
    attributes = {group: tuple(values) for group, values in card["attributes"].items()}
    sizes = [len(card["classes"]), *(len(values) for values in attributes.values())]
    network = _network(card["network"], sum(sizes), card["image_size"])
    load_weights(network, read_weights(folder / "judge.safetensors"), source=str(folder), hint="Train the judge anew.")
    network = network.to(device).eval().requires_grad_(False)
    columns = []
    for word in concepts:
        asked = parse_condition(word, card["classes"], attributes)
        if asked.class_name is not None:
            columns.append(card["classes"].index(asked.class_name))
        else:
            ((group, value),) = asked.attributes.items()
            columns.append(sum(sizes[: 1 + list(attributes).index(group)]) + attributes[group].index(value))

    @torch.no_grad()
    def judge(images: Tensor) -> Tensor:
        side = card["image_size"]
        seen = images.to(device)
        if seen.shape[-1] != side:
            seen = F.interpolate(seen, (side, side), mode="bicubic", antialias=True, align_corners=False)
        return network(_seen(seen.clamp(0, 1)))[:, columns].float().softmax(1).to(images.device)

    return judge
