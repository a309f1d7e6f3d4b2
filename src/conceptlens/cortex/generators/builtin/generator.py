"""The generator behind the contract, saved as fp16 safetensors and JSON."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.files import file_hash, new_folder, read_json, write_json
from conceptlens.core.upgrades import upgrade_parameters
from conceptlens.cortex.generators.builtin.autoencoder import AutoEncoder, fit_to
from conceptlens.cortex.generators.builtin.sampler import sample_tokens
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings
from conceptlens.cortex.generators.builtin.transformer import MaskedTransformer
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.settings import Sampling
from conceptlens.encoders.weights_file import load_weights, read_weights

WEIGHTS, CARD = "generator.safetensors", "generator.json"
TRAINING_ONLY = ("autoencoder.quantizer.counts", "autoencoder.quantizer.sums")
BATCH = 64


class SmallGenerator(VQModel):
    """A VQ-GAN and a masked-token transformer over its tokens."""

    generates = True
    sampling = Sampling(temperature=1.0, guidance=1.5)
    draws_with = ("temperature", "guidance")

    def __init__(self, settings: GeneratorSettings, name: str = "generator") -> None:
        super().__init__()
        self.settings, self.name = settings, name
        self.image_size, self.grid = settings.image_size, settings.grid
        self.classes = settings.classes
        self.attributes = {group: tuple(values) for group, values in settings.attributes.items()}
        self.autoencoder = AutoEncoder(settings)
        self.transformer = MaskedTransformer(settings)

    @property
    def codebook(self) -> Tensor:
        return self.autoencoder.quantizer.codebook

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        images = fit_to(images.to(self.codebook), self.image_size)
        tokens = [
            self.nearest_codes(self.autoencoder.encoder(2 * part - 1).float()) for part in torch.split(images, BATCH)
        ]
        return torch.cat(tokens)

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        return torch.cat([self.autoencoder.paint(part) for part in torch.split(embeddings, BATCH)]).clamp(0, 1)

    def generate(
        self,
        condition: Condition | None,
        n: int,
        *,
        seed: int = 0,
        steps: int = 12,
        guidance: float | None = None,
        temperature: float | None = None,
    ) -> Tensor:
        """Token grids (n, h, w); see `sample_tokens`. Drawn in one go: parts of another size are other draws."""
        if n < 1:
            raise UserError(f"Expected at least one sample, found {n}.")
        sampling = Sampling(temperature=temperature, guidance=guidance).over(self.sampling).given()
        tokens = sample_tokens(
            self.transformer,
            self.codebook,
            self.transformer.indices(condition, n),
            cells=math.prod(self.grid),
            steps=steps,
            seed=seed,
            **sampling,
        )
        return tokens.view(n, *self.grid)


def save_generator(model: SmallGenerator, folder: Path, **card: Any) -> None:
    """Write weights in fp16 and a card; `card` holds what else shall be known (recipe, data, measures)."""
    with new_folder(folder) as aside:
        state = {
            name: value.detach().cpu().half().contiguous()
            for name, value in model.state_dict().items()
            if name not in TRAINING_ONLY
        }
        save_file(state, aside / WEIGHTS)
        about = {"settings": asdict(model.settings), "name": model.name, "weights": file_hash(aside / WEIGHTS)}
        write_json(aside / CARD, {**about, "card": card})


def load_generator(folder: Path) -> SmallGenerator:
    """A saved generator, on the CPU, in evaluation mode and fp32."""
    raw: dict[str, Any] = read_json(folder / CARD)
    try:
        options = dict(raw["settings"])
        options["classes"], options["channels"] = tuple(options["classes"]), tuple(options["channels"])
        options["attributes"] = {name: tuple(values) for name, values in options["attributes"].items()}
        model = SmallGenerator(GeneratorSettings(**options), str(raw.get("name", folder.name)))
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / CARD}: not a generator of this version ({error}).") from None
    path = folder / WEIGHTS
    weights = {name: value.float() for name, value in upgrade_parameters(read_weights(path)).items()}
    if file_hash(path) != raw.get("weights"):
        raise UserError(f"{path}: the file is not the one that was saved (its hash differs). Copy the folder again.")
    load_weights(
        model, weights, source=str(path), hint="Copy the folder again.", ignore=lambda name: name in TRAINING_ONLY
    )
    frozen: nn.Module = model.eval().requires_grad_(False)
    assert isinstance(frozen, SmallGenerator)
    return frozen
