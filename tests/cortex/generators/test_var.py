"""VAR: residual quantization over scales and the transformer over them, against plain ones without memory."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions, Sampling
from conceptlens.cortex.generators.var import VAR, ScaleTransformer
from conceptlens.cortex.generators.var_tokenizer import VARTokenizer, phi_of
from conceptlens.testing import check_vq_model
from tests.cortex.generators.test_vqgan import Plain, _conv, tiny_state

SCALES, WIDTH, HEADS = (1, 2, 5, 8), 32, 4
LENGTH = sum(side * side for side in SCALES)


def tokenizer_state() -> dict[str, Tensor]:
    """A small one in its names: one tensor of queries, keys and values, 3 × 3 convolutions around the codes, four φ."""
    state = tiny_state() | _conv("quant_conv", 6, 4) | _conv("post_quant_conv", 4, 6)
    for name in [name for name in state if ".q." in name]:
        state[name.replace(".q.", ".qkv.")] = torch.cat([state.pop(name.replace(".q.", f".{part}.")) for part in "qkv"])
    for place in range(4):
        state |= _conv(f"quantize.quant_resi.qresi_ls.{place}", 4, 4)
    return state | {"quantize.ema_vocab_hit_SV": torch.zeros(len(SCALES), 10)}


class PlainVAR(Plain):
    def conv(self, x: Tensor, name: str, **options: int) -> Tensor:
        return super().conv(x, name, **(options | {"padding": 1} if "quant_conv" in name else options))

    def added(self, place: int, codes: Tensor) -> Tensor:
        if codes.shape[-1] < 8:
            codes = F.interpolate(codes, (8, 8), mode="bicubic")
        ticks = [1 / 12, 1 / 12 + 5 / 18, 1 / 12 + 10 / 18, 11 / 12]
        layer = min(range(4), key=lambda tick: abs(ticks[tick] - place / 3))
        return 0.5 * codes + 0.5 * self.conv(codes, f"quantize.quant_resi.qresi_ls.{layer}", padding=1)


def plain() -> PlainVAR:
    state = tokenizer_state()
    for name in [name for name in state if ".qkv." in name]:
        for part, some in zip("qkv", state[name].chunk(3), strict=True):
            state[name.replace(".qkv.", f".{part}.")] = some
    return PlainVAR(state)


def test_published_scales_share_the_layers_as_the_release_does() -> None:
    assert [phi_of(scale, 10, 4) for scale in range(10)] == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert [phi_of(scale, 10, 1) for scale in range(10)] == [0] * 10
    assert [phi_of(scale, 10, 10) for scale in range(10)] == list(range(10))


def test_residual_quantization_is_that_of_the_equations() -> None:
    model, reference = VARTokenizer(tokenizer_state(), "test", 16, scales=SCALES), plain()
    codes = tiny_state()["quantize.embedding.weight"]
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    rest, total, rows = reference.encode(images), torch.zeros(2, 4, 8, 8), []
    for place, side in enumerate(SCALES):
        # The area of a coarse cell, averaged: torch's own `area`, cell by cell.
        seen = torch.zeros(2, 4, side, side)
        for row in range(side):
            for column in range(side):
                window = [slice(math.floor(at * 8 / side), math.ceil((at + 1) * 8 / side)) for at in (row, column)]
                seen[:, :, row, column] = rest[:, :, window[0], window[1]].mean((2, 3))
        tokens = torch.cdist(seen.movedim(1, -1).reshape(-1, 4), codes).argmin(1).view(2, side, side)
        step = reference.added(place, codes[tokens].movedim(-1, 1))
        rest, total = rest - step, total + step
        rows.append(tokens.flatten(1))
    tokens = model.encode(images)
    assert model.grid == (1, LENGTH)
    assert torch.equal(tokens[:, 0], torch.cat(rows, 1))
    torch.testing.assert_close(model.decode(tokens), reference.decode(total).clamp(0, 1), atol=1e-4, rtol=1e-4)
    check_vq_model(model)


def test_a_token_covers_its_part_of_the_image() -> None:
    model = VARTokenizer(tokenizer_state(), "test", 16, scales=SCALES)
    marked = torch.zeros(1, 1, LENGTH, dtype=torch.bool)
    marked[0, 0, 2] = True  # the second of the 2 × 2 map: the upper right quarter
    cells = model.places(marked)[0]
    assert cells[:4, 4:].all()
    assert int(cells.sum()) == 16
    marked[0, 0, -1] = True
    assert int(model.places(marked).sum()) == 17


def transformer_state(*, shared: bool = False, unit: bool = True) -> dict[str, Tensor]:
    torch.manual_seed(3)

    def linear(name: str, outside: int, inside: int) -> dict[str, Tensor]:
        return {
            f"{name}.weight": torch.randn(outside, inside) / inside**0.5,
            f"{name}.bias": torch.randn(outside) * 0.1,
        }

    state = {"pos_start": torch.randn(1, 1, WIDTH), "pos_1LC": torch.randn(1, LENGTH, WIDTH)}
    state |= {"class_emb.weight": torch.randn(4, WIDTH), "lvl_embed.weight": torch.randn(len(SCALES), WIDTH)}
    state |= linear("word_embed", WIDTH, 4) | linear("head_nm.ada_lin.1", 2 * WIDTH, WIDTH) | linear("head", 10, WIDTH)
    levels = torch.cat([torch.full((side * side,), level) for level, side in enumerate(SCALES)])[None]
    state |= {"lvl_1L": levels, "attn_bias_for_masking": torch.zeros(1, 1, LENGTH, LENGTH)}
    if shared:
        state |= linear("shared_ada_lin.1", 6 * WIDTH, WIDTH)
    for block in ("blocks.0", "blocks.1"):
        state[f"{block}.attn.mat_qkv.weight"] = torch.randn(3 * WIDTH, WIDTH) / WIDTH**0.5
        state |= {f"{block}.attn.{part}": torch.randn(WIDTH) * 0.1 for part in ("q_bias", "v_bias")}
        state |= {f"{block}.attn.zero_k_bias": torch.zeros(WIDTH)} | linear(f"{block}.attn.proj", WIDTH, WIDTH)
        state |= linear(f"{block}.ffn.fc1", 64, WIDTH) | linear(f"{block}.ffn.fc2", WIDTH, 64)
        if unit:
            state[f"{block}.attn.scale_mul_1H11"] = torch.rand(1, HEADS, 1, 1) * 6  # some are above log 100
        if shared:
            state[f"{block}.ada_gss"] = torch.randn(1, 1, 6, WIDTH)
        else:
            state |= linear(f"{block}.ada_lin.1", 6 * WIDTH, WIDTH)
    return state


def plain_logits(state: dict[str, Tensor], label: int, inputs: list[Tensor]) -> Tensor:
    """Logits of all scales at once for one image: a mask in the place of memory, a loop over heads."""

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-6).sqrt()

    condition = state["class_emb.weight"][label]
    levels = state["lvl_1L"][0]
    x = torch.cat([condition[None] + state["pos_start"][0], *(linear(part, "word_embed") for part in inputs)])
    x = x + state["lvl_embed.weight"][levels] + state["pos_1LC"][0]
    hidden = levels[:, None] < levels[None]
    for block in ("blocks.0", "blocks.1"):
        if f"{block}.ada_gss" in state:
            six = state[f"{block}.ada_gss"][0, 0] + linear(F.silu(condition), "shared_ada_lin.1").view(6, WIDTH)
        else:
            six = linear(F.silu(condition), f"{block}.ada_lin.1").view(6, WIDTH)
        seen = norm(x) * (1 + six[2]) + six[4]
        q, k, v = (seen @ state[f"{block}.attn.mat_qkv.weight"].T).chunk(3, 1)
        q, v = q + state[f"{block}.attn.q_bias"], v + state[f"{block}.attn.v_bias"]
        size, mixed = WIDTH // HEADS, []
        for head in range(HEADS):
            own = slice(head * size, (head + 1) * size)
            queries, keys = q[:, own], k[:, own]
            if f"{block}.attn.scale_mul_1H11" in state:
                scale = min(float(state[f"{block}.attn.scale_mul_1H11"][0, head, 0, 0].exp()), 100.0)
                queries, keys = (part / part.norm(dim=1, keepdim=True) for part in (queries, keys))
            else:
                scale = 0.25 / size**0.5
            mixed.append((scale * queries @ keys.T).masked_fill(hidden, -torch.inf).softmax(1) @ v[:, own])
        x = x + six[0] * linear(torch.cat(mixed, 1), f"{block}.attn.proj")
        seen = norm(x) * (1 + six[3]) + six[5]
        x = x + six[1] * linear(F.gelu(linear(seen, f"{block}.ffn.fc1"), approximate="tanh"), f"{block}.ffn.fc2")
    weight, shift = linear(F.silu(condition), "head_nm.ada_lin.1").chunk(2)
    return linear(norm(x) * (1 + weight) + shift, "head")


@pytest.mark.parametrize(("shared", "unit"), [(False, True), (True, True), (False, False)])
def test_the_transformer_is_that_of_the_equations(shared: bool, unit: bool) -> None:
    state = transformer_state(shared=shared, unit=unit)
    model = ScaleTransformer(state, "test", (10, 4), None if unit else HEADS)
    torch.manual_seed(4)
    inputs = [torch.randn(side * side, 4) for side in SCALES[1:]]
    expected = plain_logits(state, 2, inputs)
    past: list[list[tuple[Tensor, Tensor]]] = [[], []]
    parts = []
    with torch.no_grad():
        for scale, side in enumerate(SCALES):
            seen = None if scale == 0 else inputs[scale - 1].T.view(1, 4, side, side)
            parts.append(model(torch.tensor([2]), scale, seen, past)[0])
    torch.testing.assert_close(torch.cat(parts), expected, atol=1e-4, rtol=1e-4)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, CheckpointOptions]:
    torch.save(tokenizer_state(), tmp_path / "vae.pth")
    torch.save(transformer_state(), tmp_path / "var.pth")
    return tmp_path / "vae.pth", CheckpointOptions(transformer=str(tmp_path / "var.pth"))


def test_it_generates_scale_by_scale(files: tuple[Path, CheckpointOptions]) -> None:
    model = open_model(files[0], image_size=16, checkpoint=files[1], sampling=Sampling(top_k=1, guidance=1.2))
    assert isinstance(model, VAR)
    assert model.scales == SCALES
    assert model.classes == ("0", "1", "2")
    reference, codes = plain(), model.codebook
    tokens = model.generate(Condition("1"), 1)[0, 0]
    total, inputs, begin = torch.zeros(1, 4, 8, 8), [], 1
    for place, side in enumerate(SCALES[:-1]):
        own = tokens[begin - side * side : begin].view(1, side, side)
        total = total + reference.added(place, codes[own].movedim(-1, 1))
        following = SCALES[place + 1]
        inputs.append(F.interpolate(total, (following, following), mode="area")[0].flatten(1).T)
        begin += following**2
    asked, without = (plain_logits(transformer_state(), label, inputs) for label in (1, 3))
    strength = torch.cat([torch.full((side * side, 1), 1.2 * place / 3) for place, side in enumerate(SCALES)])
    assert torch.equal(tokens, ((1 + strength) * asked - strength * without).argmax(1))
    check_vq_model(model)


def test_what_is_refused(files: tuple[Path, CheckpointOptions], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no published scales"):
        open_model(files[0], image_size=16)
    with pytest.raises(UserError, match="--image-size 16"):
        open_model(files[0], image_size=32, checkpoint=files[1])
    with pytest.raises(UserError, match="this is a VAR transformer"):
        open_model(str(files[1].transformer))
    torch.save(transformer_state(unit=False), tmp_path / "plain.pth")
    with pytest.raises(UserError, match="Give --heads"):
        open_model(files[0], image_size=16, checkpoint=CheckpointOptions(transformer=str(tmp_path / "plain.pth")))
