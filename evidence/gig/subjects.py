"""What is taken apart: the authors' ResNet-50 with the paper's names of layers, and the built-in ViT with a head."""

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save
from torch import Tensor, nn

from conceptlens.core.files import write_bytes
from conceptlens.gig.network import Network, open_network

MEAN = (123.68, 116.779, 103.939)  # of RGB bytes
DEPTHS = (3, 4, 6, 3)
SIDE = 224
HELD_OUT = 0.5  # of the whole photographs, one of each class


@dataclass(frozen=True)
class Pictures:
    """Images as bytes in memory; the model's own preparation is inside the model."""

    pixels: Tensor  # (N, 3, S, S) uint8
    classes: Tensor  # (N,)
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pixels)

    def batches(self, size: int, indices: Sequence[int]) -> Iterator[tuple[list[int], Tensor]]:
        for start in range(0, len(indices), size):
            some = list(indices[start : start + size])
            yield some, self.pixels[some].float() / 255

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:16]

    def of(self, chosen: Sequence[int]) -> "Pictures":
        return Pictures(self.pixels[list(chosen)], self.classes[list(chosen)], tuple(self.names[i] for i in chosen))


@dataclass(frozen=True)
class Subject:
    """A network with the images that concepts are learned from, those they are judged on, and a set it is known by."""

    name: str
    network: Network
    learn: Pictures
    judge: Pictures
    known: Pictures
    per_image: int


class Block(nn.Module):
    """1 × 1, 3 × 3, 1 × 1 beside a shortcut; the stride is in the first, batch norms are folded into the biases."""

    def __init__(self, before: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(before, width, 1, stride)
        self.spatial = nn.Conv2d(width, width, 3, padding=1)
        self.expand = nn.Conv2d(width, 4 * width, 1)
        self.shortcut = nn.Conv2d(before, 4 * width, 1, stride) if project else nn.Identity()
        self.act1, self.act2, self.act3 = nn.ReLU(), nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.act2(self.spatial(self.act1(self.reduce(x))))
        return self.act3(self.expand(inner) + self.shortcut(x))


class ResNet50(nn.Module):
    """He et al., 2016, with the authors' weights; images (B, 3, S, S) in [0, 1]."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.stem, self.act = nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, 1)
        before = 64
        for stage, depth in enumerate(DEPTHS):
            width, blocks = 64 * 2**stage, []
            for number in range(depth):
                blocks.append(Block(before, width, 2 if stage and not number else 1, not number))
                before = 4 * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.classifier = nn.Linear(before, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.act(self.stem(x * 255 - self.mean)))
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.classifier(x.mean((2, 3)))


RESNET_LAYERS = [f"layer{stage + 1}.{block}" for stage, depth in enumerate(DEPTHS) for block in range(depth)]


def resnet50(weights: Path) -> ResNet50:
    state, found = {}, load_file(weights)
    for name, value in found.items():
        if name.endswith(".scale"):
            continue
        if f"{name}.scale" in found:  # 8 bits a weight, as pack.py writes them
            value = value.float() * found[f"{name}.scale"].view(-1, *[1] * (value.ndim - 1))
        if name.startswith("stages."):
            _, stage, rest = name.split(".", 2)
            name = f"layer{int(stage) + 1}.{rest}"
        state[name] = value.float()
    model = ResNet50()
    model.load_state_dict(state | {"mean": model.mean})
    return model


def _decoded(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as file:
        image = file.convert("RGB")
    if image.size != (SIDE, SIDE):
        image = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.array(image).transpose(2, 0, 1)


def read_pack(folder: Path, limit: int, threads: int) -> dict[str, Pictures]:
    """The sets of a pack; at most `limit` images of each."""
    found: dict[str, list[tuple[str, bytes]]] = {}
    for file in sorted(folder.glob("images-*.tar")):
        with tarfile.open(file) as tar:
            for member in tar:
                name = member.name.split("/")[0]
                opened = tar.extractfile(member)
                if opened is not None and len(found.setdefault(name, [])) < limit:
                    found[name].append((member.name, opened.read()))
    sets = {}
    with ThreadPoolExecutor(threads) as pool:
        for name, members in found.items():
            pixels = np.empty((len(members), 3, SIDE, SIDE), np.uint8)
            for place, one in enumerate(pool.map(_decoded, [data for _, data in members])):
                pixels[place] = one
            classes = torch.tensor([int(member.split("/")[1]) for member, _ in members])
            sets[name] = Pictures(torch.from_numpy(pixels), classes, tuple(member for member, _ in members))
    return sets


def _joined(parts: Sequence[Pictures]) -> Pictures:
    return Pictures(
        torch.cat([part.pixels for part in parts]),
        torch.cat([part.classes for part in parts]),
        tuple(name for part in parts for name in part.names),
    )


def resnet_subject(
    weights: Path, pack: Path, layers: Sequence[str], *, limit: int, per_image: int, threads: int, device: str
) -> Subject:
    sets = read_pack(pack, limit, threads)
    whole = sets["samples"]
    cut = round(HELD_OUT * len(whole))
    learn = _joined(
        [whole.of(range(cut, len(whole))), *(sets[name] for name in ("imagenette", "tiny") if name in sets)]
    )
    network = open_network(resnet50(weights).to(device), list(layers), image_size=SIDE)
    return Subject(
        "resnet50", network, learn, whole.of(range(cut)), sets.get("imagenette-val", whole.of(range(cut))), per_image
    )


class ViT(nn.Module):
    """The built-in encoder and a linear head on the mean of its patch tokens; images in [0, 1]."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        from conceptlens.encoders.builtin.vit import BuiltinViT

        self.encoder = BuiltinViT()
        self.head = nn.Linear(self.encoder.width, classes)

    def vector(self, x: Tensor) -> Tensor:
        return self.encoder(x).patches.mean(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.vector(x))


def blood_cells(side: int, limit: int) -> Pictures:
    """The package's own cells, in a fixed random order."""
    from conceptlens.data.images.read import resize_square
    from conceptlens.data.sources.open import open_source
    from conceptlens.recipes.parse import load_recipe

    source, _ = open_source(load_recipe({"data": "blood-cells"}).data, None)
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(0)).tolist()[:limit]
    pixels = torch.stack([torch.from_numpy(resize_square(source.read_at_least(i, side), side)) for i in order])
    labels = torch.as_tensor(source.examples.labels)[order].long()
    return Pictures(pixels, labels, tuple(source.examples.ids[i] for i in order))


def vit_subject(layers: Sequence[str] | None, head: Path, *, limit: int, per_image: int, device: str) -> Subject:
    """Three quarters of the cells to learn from, head and concepts alike; the rest to judge. The head is kept."""
    side = 112
    cells = blood_cells(side, limit)
    cut = len(cells) * 3 // 4
    learn, judge = cells.of(range(cut)), cells.of(range(cut, len(cells)))
    torch.manual_seed(0)
    model = ViT(int(cells.classes.max()) + 1).to(device).eval()
    if not head.exists():
        with torch.no_grad():
            vectors = torch.cat([model.vector(x.to(device)) for _, x in learn.batches(64, range(cut))])
        _fit_head(model.head, vectors, learn.classes.to(device))
        write_bytes(head, save({name: value.detach().cpu() for name, value in model.head.state_dict().items()}))
    model.head.load_state_dict(load_file(head))
    names = layers or [
        name for name, _ in model.named_modules() if name.startswith("encoder.trunk.") and name.count(".") == 2
    ]
    return Subject("vit", open_network(model, list(names), image_size=side), learn, judge, judge, per_image)


def _fit_head(head: nn.Linear, vectors: Tensor, classes: Tensor) -> None:
    """Logistic regression on standardized vectors, folded into the head."""
    mean, std = vectors.mean(0), vectors.std(0).clamp_min(1e-6)
    x = (vectors - mean) / std
    weight = torch.zeros_like(head.weight).requires_grad_()
    bias = torch.zeros_like(head.bias).requires_grad_()
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(x @ weight.T + bias, classes) + 1e-3 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        head.weight.copy_(weight / std)
        head.bias.copy_(bias - (weight / std) @ mean)
