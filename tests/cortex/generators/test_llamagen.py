"""LlamaGen: the tokenizer against a plain one, the autoregressive model against the equations written out."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.llamagen import LlamaGen, LlamaTransformer
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions, Sampling
from conceptlens.testing import check_vq_model
from tests.cortex.generators.test_vqgan import Plain, tiny_state


def in_its_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Two levels: the decoder's coarse one comes first."""
    renamed = {}
    for name, value in state.items():
        new = name.replace("encoder.down.", "encoder.conv_blocks.").replace("decoder.up.1.", "decoder.conv_blocks.0.")
        new = new.replace("decoder.up.0.", "decoder.conv_blocks.1.").replace(".block.", ".res.")
        for place, part in enumerate(("block_1", "attn_1", "block_2")):
            new = new.replace(f".mid.{part}.", f".mid.{place}.")
        renamed[new] = value
    return renamed | {"quantize.codebook_used": torch.zeros(7)}


def model_state(words: int = 10, width: int = 32, depth: int = 2, heads: int = 4, keys: int = 2) -> dict[str, Tensor]:
    torch.manual_seed(2)
    size, hidden = width // heads, 3 * width
    state = {
        "cls_embedding.embedding_table.weight": torch.randn(6, width),
        "tok_embeddings.weight": torch.randn(words, width),
    }
    state |= {"norm.weight": torch.rand(width), "output.weight": torch.randn(words, width) / 4}
    for layer in (f"layers.{place}" for place in range(depth)):
        state |= {f"{layer}.attention_norm.weight": torch.rand(width), f"{layer}.ffn_norm.weight": torch.rand(width)}
        for name, outside, inside in (
            ("attention.wqkv", (heads + 2 * keys) * size, width),
            ("attention.wo", width, width),
            ("feed_forward.w1", hidden, width),
            ("feed_forward.w3", hidden, width),
            ("feed_forward.w2", width, hidden),
        ):
            state[f"{layer}.{name}.weight"] = torch.randn(outside, inside) / inside**0.5
    return state


def plain_logits(state: dict[str, Tensor], label: int, tokens: Tensor, side: int, heads: int, keys: int) -> Tensor:
    """Logits (T + 1, V) of one image, token by token and head by head, without memory."""

    def norm(x: Tensor, name: str) -> Tensor:
        return torch.stack([v / math.sqrt(float(v.square().mean()) + 1e-5) for v in x]) * state[f"{name}.weight"]

    def turned(vector: Tensor, place: int) -> Tensor:
        if place == 0:
            return torch.zeros_like(vector)  # the class
        row, column = divmod(place - 1, side)
        pairs = len(vector) // 2
        result = vector.clone()
        for pair in range(pairs):
            axis, speed = (row, pair) if pair < pairs // 2 else (column, pair - pairs // 2)
            angle = axis * 10_000 ** (-2 * speed / pairs)
            a, b = float(vector[2 * pair]), float(vector[2 * pair + 1])
            result[2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            result[2 * pair + 1] = b * math.cos(angle) + a * math.sin(angle)
        return result

    x = torch.cat([state["cls_embedding.embedding_table.weight"][label][None], state["tok_embeddings.weight"][tokens]])
    width, size = x.shape[1], x.shape[1] // heads
    for layer in ("layers.0", "layers.1"):
        whole = norm(x, f"{layer}.attention_norm") @ state[f"{layer}.attention.wqkv.weight"].T
        q, k, v = whole.split([width, keys * size, keys * size], 1)
        outputs = []
        for head in range(heads):
            own, shared = slice(head * size, (head + 1) * size), head // (heads // keys)
            theirs = slice(shared * size, (shared + 1) * size)
            turned_k = torch.stack([turned(row[theirs], place) for place, row in enumerate(k)])
            mixed = []
            for place, row in enumerate(q):
                scores = turned_k[: place + 1] @ turned(row[own], place) / math.sqrt(size)
                mixed.append(scores.softmax(0) @ v[: place + 1, theirs])
            outputs.append(torch.stack(mixed))
        x = x + torch.cat(outputs, 1) @ state[f"{layer}.attention.wo.weight"].T
        seen = norm(x, f"{layer}.ffn_norm")
        gate = F.silu(seen @ state[f"{layer}.feed_forward.w1.weight"].T) * (
            seen @ state[f"{layer}.feed_forward.w3.weight"].T
        )
        x = x + gate @ state[f"{layer}.feed_forward.w2.weight"].T
    return norm(x, "norm") @ state["output.weight"].T


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, CheckpointOptions]:
    torch.save({"model": in_its_names(tiny_state()), "steps": 3}, tmp_path / "vq.pt")
    torch.save({"model": model_state()}, tmp_path / "c2i.pt")
    return tmp_path / "vq.pt", CheckpointOptions(transformer=str(tmp_path / "c2i.pt"), heads=4)


def test_the_tokenizer_quantizes_by_angle(files: tuple[Path, CheckpointOptions]) -> None:
    model = open_model(files[0], image_size=16)
    assert not model.generates
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    vectors = Plain(tiny_state()).encode(images).movedim(1, -1).reshape(-1, 4)
    codes = tiny_state()["quantize.embedding.weight"]
    codes = codes / codes.square().sum(1, keepdim=True).sqrt()
    tokens = model.encode(images)
    assert torch.equal(tokens.flatten(), F.cosine_similarity(vectors[:, None], codes[None], dim=-1).argmax(1))
    expected = Plain(tiny_state()).decode(codes[tokens].movedim(-1, 1)).clamp(0, 1)
    torch.testing.assert_close(model.decode(tokens), expected, atol=1e-4, rtol=1e-4)


def test_the_model_is_that_of_the_equations_with_and_without_memory() -> None:
    state = model_state()
    model = LlamaTransformer(state, "test", side=8, heads=4)
    assert model.classes == 5
    tokens = torch.randint(10, (1, 11), generator=torch.Generator().manual_seed(0))
    expected = plain_logits(state, 3, tokens[0], 8, 4, 2)
    with torch.no_grad():
        whole, _ = model(torch.tensor([3]), tokens)
        torch.testing.assert_close(whole[0], expected, atol=1e-4, rtol=1e-4)
        logits, past = model(torch.tensor([3]), None)
        parts = [logits]
        for place in range(tokens.shape[1]):
            logits, past = model(None, tokens[:, place : place + 1], past)
            parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1)[0], expected, atol=1e-4, rtol=1e-4)


def test_it_generates_with_guidance(files: tuple[Path, CheckpointOptions]) -> None:
    path, options = files
    model = open_model(path, image_size=16, checkpoint=options, sampling=Sampling(top_k=1, guidance=3.0))
    assert isinstance(model, LlamaGen)
    assert model.classes == ("0", "1", "2", "3", "4")
    first = int(model.generate(Condition("2"), 1)[0, 0, 0])
    asked, without = (
        plain_logits(model_state(), label, torch.tensor([], dtype=torch.long), 8, 4, 2)[0] for label in (2, 5)
    )
    assert first == int((without + 3 * (asked - without)).argmax())
    assert int(model.generate(None, 1)[0, 0, 0]) == int(without.argmax())  # neutral is the null class
    check_vq_model(model)


def test_what_is_refused(files: tuple[Path, CheckpointOptions], tmp_path: Path) -> None:
    path, options = files
    with pytest.raises(UserError, match="none of the published sizes"):
        open_model(path, image_size=16, checkpoint=CheckpointOptions(transformer=options.transformer))
    with pytest.raises(UserError, match="Name the tokenizer's file"):
        open_model(str(options.transformer))
    with pytest.raises(UserError, match="--heads is the transformer's"):
        open_model(path, image_size=16, checkpoint=CheckpointOptions(heads=4))
    torch.save({"model": model_state() | {"cls_embedding.cap_proj.fc1.weight": torch.ones(1)}}, tmp_path / "t2i.pt")
    with pytest.raises(UserError, match="text-conditional"):
        open_model(path, image_size=16, checkpoint=CheckpointOptions(transformer=str(tmp_path / "t2i.pt"), heads=4))
    torch.save({"model": model_state(words=12)}, tmp_path / "other.pt")
    with pytest.raises(UserError, match="do not belong together"):
        open_model(path, image_size=16, checkpoint=CheckpointOptions(transformer=str(tmp_path / "other.pt"), heads=4))
    with pytest.raises(UserError, match="does not generate"):
        open_model(path, image_size=16, sampling=Sampling(top_k=1))
