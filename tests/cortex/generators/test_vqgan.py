"""VQGAN checkpoints: rebuilt from tensors, in both layouts, as data only."""

import codecs
import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions, Sampling
from conceptlens.cortex.generators.torch_file import read_torch_file, tensors_of
from conceptlens.cortex.generators.vqgan import VQGAN
from conceptlens.cortex.generators.vqgan_transformer import CausalTransformer, GenerativeVQGAN


def _block(state: dict[str, Tensor], name: str, inside: int, outside: int) -> None:
    state |= _norm(f"{name}.norm1", inside) | _conv(f"{name}.conv1", inside, outside)
    state |= _norm(f"{name}.norm2", outside) | _conv(f"{name}.conv2", outside, outside)
    if inside != outside:
        state |= _conv(f"{name}.nin_shortcut", inside, outside, 1)


def _norm(name: str, channels: int) -> dict[str, Tensor]:
    return {f"{name}.weight": torch.rand(channels) + 0.5, f"{name}.bias": torch.randn(channels) * 0.1}


def _conv(name: str, inside: int, outside: int, size: int = 3) -> dict[str, Tensor]:
    weight = torch.randn(outside, inside, size, size) / (inside * size * size) ** 0.5
    return {f"{name}.weight": weight, f"{name}.bias": torch.randn(outside) * 0.1}


def _attention(state: dict[str, Tensor], name: str, channels: int) -> None:
    state |= _norm(f"{name}.norm", channels)
    for part in ("q", "k", "v", "proj_out"):
        state |= _conv(f"{name}.{part}", channels, channels, 1)


def tiny_state() -> dict[str, Tensor]:
    """Names and shapes as the original release writes them: ch 32, multipliers 1 and 2, attention at the coarse one."""
    torch.manual_seed(0)
    state: dict[str, Tensor] = {}
    state |= _conv("encoder.conv_in", 3, 32)
    _block(state, "encoder.down.0.block.0", 32, 32)
    state |= _conv("encoder.down.0.downsample.conv", 32, 32)
    _block(state, "encoder.down.1.block.0", 32, 64)
    _attention(state, "encoder.down.1.attn.0", 64)
    for half, latent_in, latent_out in (("encoder", 0, 6), ("decoder", 6, 0)):
        _block(state, f"{half}.mid.block_1", 64, 64)
        _attention(state, f"{half}.mid.attn_1", 64)
        _block(state, f"{half}.mid.block_2", 64, 64)
        if half == "encoder":
            state |= _norm("encoder.norm_out", 64) | _conv("encoder.conv_out", 64, latent_out)
        else:
            state |= _conv("decoder.conv_in", latent_in, 64)
    for place, inside in ((0, 64), (1, 64)):
        _block(state, f"decoder.up.1.block.{place}", inside, 64)
        _attention(state, f"decoder.up.1.attn.{place}", 64)
    state |= _conv("decoder.up.1.upsample.conv", 64, 64)
    _block(state, "decoder.up.0.block.0", 64, 32)
    _block(state, "decoder.up.0.block.1", 32, 32)
    state |= _norm("decoder.norm_out", 32) | _conv("decoder.conv_out", 32, 3)
    state["quantize.embedding.weight"] = torch.randn(10, 4)
    state |= _conv("quant_conv", 6, 4, 1) | _conv("post_quant_conv", 4, 6, 1)
    return state


class Plain:
    """The same network written out step by step, straight from the tensors."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        self.state = state

    def conv(self, x: Tensor, name: str, **options: int) -> Tensor:
        return F.conv2d(x, self.state[f"{name}.weight"], self.state[f"{name}.bias"], **options)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.group_norm(x, 32, self.state[f"{name}.weight"], self.state[f"{name}.bias"], eps=1e-6)

    def block(self, x: Tensor, name: str) -> Tensor:
        y = self.norm(x, f"{name}.norm1")
        y = self.conv(y * y.sigmoid(), f"{name}.conv1", padding=1)
        y = self.norm(y, f"{name}.norm2")
        y = self.conv(y * y.sigmoid(), f"{name}.conv2", padding=1)
        return y + (self.conv(x, f"{name}.nin_shortcut") if f"{name}.nin_shortcut.weight" in self.state else x)

    def attention(self, x: Tensor, name: str) -> Tensor:
        seen = self.norm(x, f"{name}.norm")
        q, k, v = (self.conv(seen, f"{name}.{part}").flatten(2) for part in "qkv")
        weights = (q.transpose(1, 2) @ k / x.shape[1] ** 0.5).softmax(-1)  # (B, to, from)
        return x + self.conv((v @ weights.transpose(1, 2)).view_as(x), f"{name}.proj_out")

    def middle(self, x: Tensor, half: str) -> Tensor:
        x = self.block(x, f"{half}.mid.block_1")
        return self.block(self.attention(x, f"{half}.mid.attn_1"), f"{half}.mid.block_2")

    def encode(self, images: Tensor) -> Tensor:
        x = self.conv(2 * images - 1, "encoder.conv_in", padding=1)
        x = self.block(x, "encoder.down.0.block.0")
        x = self.conv(F.pad(x, (0, 1, 0, 1)), "encoder.down.0.downsample.conv", stride=2)
        x = self.attention(self.block(x, "encoder.down.1.block.0"), "encoder.down.1.attn.0")
        x = self.norm(self.middle(x, "encoder"), "encoder.norm_out")
        return self.conv(self.conv(x * x.sigmoid(), "encoder.conv_out", padding=1), "quant_conv")

    def decode(self, embeddings: Tensor) -> Tensor:
        x = self.conv(self.conv(embeddings, "post_quant_conv"), "decoder.conv_in", padding=1)
        x = self.middle(x, "decoder")
        for place in (0, 1):
            x = self.attention(self.block(x, f"decoder.up.1.block.{place}"), f"decoder.up.1.attn.{place}")
        x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
        x = self.conv(x, "decoder.up.1.upsample.conv", padding=1)
        x = self.block(self.block(x, "decoder.up.0.block.0"), "decoder.up.0.block.1")
        x = self.norm(x, "decoder.norm_out")
        return (self.conv(x * x.sigmoid(), "decoder.conv_out", padding=1) + 1) / 2


def agree(model: VQGAN, state: dict[str, Tensor]) -> None:
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    vectors = Plain(state).encode(images)
    expected = torch.cdist(vectors.movedim(1, -1).reshape(-1, 4), state["quantize.embedding.weight"]).argmin(1)
    tokens = model.encode(images)
    assert tokens.shape == (2, *model.grid) == (2, 8, 8)
    assert torch.equal(tokens.flatten(), expected)
    torch.testing.assert_close(
        model.decode(tokens), Plain(state).decode(model.embed(tokens)).clamp(0, 1), atol=1e-5, rtol=1e-4
    )


def test_a_safetensors_file_is_rebuilt(tmp_path: Path) -> None:
    save_file(tiny_state(), tmp_path / "vq.safetensors")
    agree(open_model(tmp_path / "vq.safetensors", image_size=16), tiny_state())


def test_a_training_checkpoint_is_read_as_data(tmp_path: Path) -> None:
    state = OrderedDict(tiny_state())
    state["loss.discriminator.weight"] = torch.zeros(3)
    torch.save({"state_dict": state, "epoch": 3, "callbacks": {"best": torch.tensor(0.5)}}, tmp_path / "last.ckpt")
    agree(open_model(tmp_path / "last.ckpt", image_size=16), tiny_state())


def test_the_first_stage_of_a_transformer_is_found(tmp_path: Path) -> None:
    state = {f"first_stage_model.{name}": value for name, value in tiny_state().items()} | {
        "transformer.x": torch.ones(1)
    }
    torch.save({"state_dict": state}, tmp_path / "net2net.ckpt")
    agree(open_model(tmp_path / "net2net.ckpt", image_size=16), tiny_state())


def as_diffusers(state: dict[str, Tensor], *, linear: bool) -> dict[str, Tensor]:
    renamed = {}
    for name, value in state.items():
        new = name
        for half in ("encoder", "decoder"):
            for old, other in (("mid.block_1", "mid_block.resnets.0"), ("mid.block_2", "mid_block.resnets.1")):
                new = new.replace(f"{half}.{old}.", f"{half}.{other}.")
            new = new.replace(f"{half}.mid.attn_1.", f"{half}.mid_block.attentions.0.")
            new = new.replace(f"{half}.norm_out.", f"{half}.conv_norm_out.")
        new = (
            new.replace(".down.", ".down_blocks.").replace(".up.1.", ".up_blocks.0.").replace(".up.0.", ".up_blocks.1.")
        )
        new = new.replace(".block.", ".resnets.").replace(".attn.", ".attentions.")
        new = new.replace(".nin_shortcut.", ".conv_shortcut.")
        new = new.replace(".downsample.", ".downsamplers.0.").replace(".upsample.", ".upsamplers.0.")
        if ".attentions." in new:
            new = new.replace(".norm.", ".group_norm.")
            for old, other in (("q", "to_q"), ("k", "to_k"), ("v", "to_v"), ("proj_out", "to_out.0")):
                new = new.replace(f".{old}.", f".{other}.")
            value = value[:, :, 0, 0] if value.ndim == 4 and linear else value
        renamed[new] = value.contiguous()
    return renamed


def test_a_diffusers_folder_is_read_without_diffusers(tmp_path: Path) -> None:
    config = {"_class_name": "VQModel", "sample_size": 16, "norm_type": "group"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(as_diffusers(tiny_state(), linear=True), tmp_path / "diffusion_pytorch_model.safetensors")
    agree(open_model(tmp_path), tiny_state())
    (tmp_path / "config.json").write_text(json.dumps(config | {"norm_type": "spatial"}))
    with pytest.raises(UserError, match="spatial"):
        open_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "AutoencoderKL"}))
    with pytest.raises(UserError, match="AutoencoderKL"):
        open_model(tmp_path)


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        import os

        return os.system, ("touch trapped",)


def test_a_checkpoint_with_code_is_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": tiny_state(), "callback": Trap()}, tmp_path / "bad.ckpt")
    with pytest.raises(UserError, match=r"holds code: it would call posix\.system"):
        open_model(tmp_path / "bad.ckpt")
    assert not (tmp_path / "trapped").exists()


class EvalTrap:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return eval, ("1 + 1",)


def test_builtins_that_run_code_are_refused(tmp_path: Path) -> None:
    torch.save({"x": EvalTrap()}, tmp_path / "bad.pt")
    with pytest.raises(UserError, match=r"builtin.*eval"):
        read_torch_file(tmp_path / "bad.pt")


def test_classes_as_keys_and_strided_tensors_are_data(tmp_path: Path) -> None:
    wide = torch.arange(12.0).view(3, 4)
    content = {
        "state_dict": {"a": wide.T, "b": wide[1:, ::2], "c": nn.Parameter(wide[0]), "h": wide.half()},
        dict: [1, (2, None)],
    }
    torch.save(content, tmp_path / "x.pt")
    state = tensors_of(read_torch_file(tmp_path / "x.pt"), tmp_path / "x.pt")
    for name, value in content["state_dict"].items():
        assert torch.equal(state[name], value.detach())
        assert state[name].dtype == value.dtype


def test_files_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "old.pth").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(UserError, match="safetensors"):
        open_model(tmp_path / "old.pth")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("x/readme.txt", "no")
    with pytest.raises(UserError, match=r"data\.pkl"):
        open_model(tmp_path / "zip.pt")
    buffer = io.BytesIO()
    torch.save({"state_dict": {"a": torch.ones(2)}}, buffer)
    (tmp_path / "other.pt").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="expected the tensors of a VQGAN"):
        open_model(tmp_path / "other.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="dictionary"):
        open_model(tmp_path / "list.pt")


def test_a_codebook_of_another_width_is_refused(tmp_path: Path) -> None:
    save_file(tiny_state() | {"quantize.embedding.weight": torch.zeros(10, 5)}, tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="width 5"):
        open_model(tmp_path / "x.safetensors", image_size=16)
    save_file(tiny_state(), tmp_path / "x.safetensors")
    with pytest.raises(UserError, match="multiple of 2"):
        open_model(tmp_path / "x.safetensors", image_size=15)


def transformer_state(words: int = 12, width: int = 32, depth: int = 2, length: int = 64) -> dict[str, Tensor]:
    torch.manual_seed(1)
    state = {"tok_emb.weight": torch.randn(words, width), "pos_emb": torch.randn(1, length, width)}
    state["head.weight"] = torch.randn(words, width) / 4
    state |= {"ln_f.weight": torch.rand(width), "ln_f.bias": torch.randn(width)}
    for block in range(depth):
        for norm in ("ln1", "ln2"):
            state |= {
                f"blocks.{block}.{norm}.weight": torch.rand(width),
                f"blocks.{block}.{norm}.bias": torch.randn(width),
            }
        for name, inside, outside in (
            *((f"attn.{part}", width, width) for part in ("key", "query", "value", "proj")),
            ("mlp.0", width, 4 * width),
            ("mlp.2", 4 * width, width),
        ):
            state[f"blocks.{block}.{name}.weight"] = torch.randn(outside, inside) / inside**0.5
            state[f"blocks.{block}.{name}.bias"] = torch.randn(outside) * 0.1
        state[f"blocks.{block}.attn.mask"] = torch.ones(1, 1, length, length)
    return state


def plain_logits(state: dict[str, Tensor], words: Tensor, heads: int) -> Tensor:
    """The transformer written out, with a mask and without memory."""

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    x = state["tok_emb.weight"][words] + state["pos_emb"][:, : words.shape[1]]
    later = torch.ones(words.shape[1], words.shape[1]).triu(1).bool()
    for block in ("blocks.0", "blocks.1"):
        seen = norm(x, f"{block}.ln1")
        parts = [linear(seen, f"{block}.attn.{part}").chunk(heads, -1) for part in ("query", "key", "value")]
        mixed = []
        for q, k, v in zip(*parts, strict=True):
            weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
            mixed.append(weights @ v)
        x = x + linear(torch.cat(mixed, -1), f"{block}.attn.proj")
        x = x + linear(F.gelu(linear(norm(x, f"{block}.ln2"), f"{block}.mlp.0")), f"{block}.mlp.2")
    return norm(x, "ln_f") @ state["head.weight"].T


def test_the_transformer_is_that_of_the_equations_with_and_without_memory() -> None:
    state = transformer_state()
    model = CausalTransformer(state, "test", heads=16)
    words = torch.randint(12, (2, 9))
    expected = plain_logits(state, words, 16)
    whole, _ = model(words)
    torch.testing.assert_close(whole, expected, atol=1e-4, rtol=1e-4)
    past, parts = None, []
    for place in range(9):
        logits, past = model(words[:, place : place + 1], past)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), expected, atol=1e-4, rtol=1e-4)


def test_a_checkpoint_of_both_stages_generates(tmp_path: Path) -> None:
    state = {f"first_stage_model.{name}": value for name, value in tiny_state().items()}
    state |= {f"transformer.{name}": value for name, value in transformer_state().items()}
    torch.save({"state_dict": state}, tmp_path / "both.ckpt")
    told = CheckpointOptions(heads=16, classes=12)
    model = open_model(tmp_path / "both.ckpt", image_size=16, checkpoint=told)
    assert isinstance(model, GenerativeVQGAN)
    tokens = model.generate(Condition("3"), 2, seed=1)
    assert tokens.shape == (2, 8, 8)
    assert int(tokens.max()) < 10  # words beyond the codebook are never drawn
    assert torch.equal(tokens, model.generate(Condition("3"), 2, seed=1))
    model.set_sampling(Sampling(top_k=1))
    surest = model.generate(Condition("3"), 1)
    first = plain_logits(transformer_state(), torch.tensor([[3]]), 16)[0, -1, :10].argmax()
    assert int(surest[0, 0, 0]) == int(first)
    assert model.generate(None, 1).shape == (1, 8, 8)
    with pytest.raises(UserError, match="Unknown class '12'"):
        model.generate(Condition("12"), 1)
    with pytest.raises(UserError, match="no attributes"):
        model.generate(Condition("3", {"size": "big"}), 1)
    with pytest.raises(UserError, match="smaller --image-size"):
        open_model(tmp_path / "both.ckpt", image_size=32, checkpoint=told)


def taming_yaml(*, stage: object = None, heads: int = 8, **more: object) -> str:
    stage = stage or {"target": "taming.modules.util.Labelator", "params": {"n_classes": 7}}
    params = {
        "cond_stage_key": "class_label",
        "transformer_config": {"target": "taming.modules.transformer.mingpt.GPT", "params": {"n_head": heads}},
        "first_stage_config": {"target": "taming.models.vqgan.VQModel", "params": {"ddconfig": {"resolution": 16}}},
        "cond_stage_config": stage,
        **more,
    }
    return yaml.safe_dump({"model": {"target": "taming.models.cond_transformer.Net2NetTransformer", "params": params}})


def test_heads_come_from_the_configuration_or_must_be_given(tmp_path: Path) -> None:
    state = {f"first_stage_model.{name}": value for name, value in tiny_state().items()}
    state |= {f"transformer.{name}": value for name, value in transformer_state().items()}
    path, configs = tmp_path / "checkpoints" / "last.ckpt", tmp_path / "configs"
    path.parent.mkdir()
    configs.mkdir()
    torch.save({"state_dict": state}, path)
    with pytest.raises(UserError, match="how many heads"):
        open_model(path)
    (configs / "2021-project.yaml").write_text(taming_yaml())
    model = open_model(path)
    assert isinstance(model, GenerativeVQGAN)
    assert (len(model.classes), model.image_size) == (7, 16)
    words = torch.randint(12, (1, 5))
    torch.testing.assert_close(
        model.transformer(words)[0], plain_logits(transformer_state(), words, 8), atol=1e-4, rtol=1e-4
    )
    (configs / "2021-project.yaml").unlink()
    for wrong, said in (
        (taming_yaml(stage="__is_unconditional__"), "found __is_unconditional__"),
        (taming_yaml(stage={"target": "taming.modules.misc.coord.CoordStage"}), "CoordStage"),
        (taming_yaml(unconditional=True), "class-conditional"),
        (taming_yaml(permuter_config={"target": "taming.modules.transformer.permuter.ZCurve"}), "another order"),
        ("model: 3", "`params` is missing"),
    ):
        (tmp_path / "other.yaml").write_text(wrong)
        with pytest.raises(UserError, match=said):
            open_model(path, checkpoint=CheckpointOptions(config=str(tmp_path / "other.yaml")))
    torch.save({"state_dict": state | {"cond_stage_model.encoder.conv_in.weight": torch.ones(1)}}, path)
    with pytest.raises(UserError, match="not on classes"):
        open_model(path, checkpoint=CheckpointOptions(heads=8, classes=7))


def test_gumbel_encodes_by_the_largest_logit_not_the_nearest_code(tmp_path: Path) -> None:
    state = tiny_state()
    state["quantize.embed.weight"] = state.pop("quantize.embedding.weight")
    state |= _conv("quantize.proj", 4, 10, 1)
    save_file(state, tmp_path / "gumbel.safetensors")
    model = open_model(tmp_path / "gumbel.safetensors", image_size=16)
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    vectors = Plain(state).encode(images)
    expected = Plain(state).conv(vectors, "quantize.proj").argmax(1)
    assert torch.equal(model.encode(images), expected)
    assert not torch.equal(expected, model.nearest_codes(vectors))
    assert torch.equal(model.codebook, state["quantize.embed.weight"])


def test_numbers_of_numpy_are_data_and_other_codecs_are_not(tmp_path: Path) -> None:
    content = {"state_dict": {"a": torch.ones(2)}, "best": np.float64(0.5), "raw": b"\x00\xff"}
    torch.save(content, tmp_path / "x.ckpt", pickle_protocol=2)
    found = read_torch_file(tmp_path / "x.ckpt")
    assert torch.equal(found["state_dict"]["a"], torch.ones(2))
    assert found["raw"] == b"\x00\xff"
    torch.save({"x": CodecTrap()}, tmp_path / "bad.ckpt", pickle_protocol=2)
    with pytest.raises(UserError, match=r"_codecs\.encode"):
        read_torch_file(tmp_path / "bad.ckpt")


class CodecTrap:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return codecs.encode, ("x", "zip")
