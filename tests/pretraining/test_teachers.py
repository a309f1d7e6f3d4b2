"""Teachers: what they compute, against plain re-computations with the batch norms unfolded; and their files."""

import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.text.wordpiece import WordPiece
from pretraining.imagenet import WNIDS
from pretraining.teachers import (
    TEACHERS,
    Teacher,
    check,
    convert,
    efficientnet_lite0,
    load_teacher,
    mobile_sam,
    resnet50,
)
from pretraining.teachers.efficientnet_lite0 import EfficientNetLite0, SameConv2d, Stage
from pretraining.teachers.folding import fold
from pretraining.teachers.minilm import MiniLM, read_bert
from pretraining.teachers.mobile_sam import MobileSam, WindowAttention, WindowBlock, from_windows, to_windows
from pretraining.teachers.resnet50 import ResNet50
from pretraining.teachers.vocabulary import read_vocabulary
from pretraining.teachers.weights import write_weights

STAGES = (Stage(1, 3, 1, 1, 4), Stage(2, 5, 2, 2, 6))


def tiny(name: str, size: int = 32, **options: object) -> Teacher:
    torch.manual_seed(0)
    settings: dict[str, dict[str, object]] = {
        "resnet50": {"depths": (2, 1, 1, 1), "width": 4, "classes": 7},
        "efficientnet_lite0": {"stages": STAGES, "stem": 4, "head": 10, "classes": 7},
        "mobile_sam": {
            "widths": (4, 8, 8, 12),
            "depths": (1, 1, 1, 1),
            "heads": (1, 2, 2, 3),
            "windows": (3, 3, 3, 3),
            "neck": 5,
        },
    }
    teacher = TEACHERS[name](size, **{**settings[name], **options})
    return teacher.eval().requires_grad_(False)


def random_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        assert tensor is not None
        nn.init.normal_(tensor)
    assert norm.running_var is not None
    nn.init.uniform_(norm.running_var, 0.1, 2.0)
    return norm.eval()


# --- folding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("groups", "bias"), [(1, True), (1, False), (4, False)])
def test_a_folded_norm_is_the_norm(groups: int, bias: bool) -> None:
    torch.manual_seed(0)
    convolution, norm = nn.Conv2d(4, 8, 3, groups=groups, bias=bias), random_norm(8)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    weight, shift = fold(
        convolution.weight,
        convolution.bias,
        gamma=norm.weight,
        beta=norm.bias,
        mean=norm.running_mean,
        variance=norm.running_var,
        eps=norm.eps,
    )
    x = torch.randn(2, 4, 6, 6)
    torch.testing.assert_close(F.conv2d(x, weight, shift, groups=groups), norm(convolution(x)), rtol=1e-4, atol=1e-5)


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(TEACHERS))
@pytest.mark.parametrize("shape", [(32, 32), (17, 40), (96, 64)])
def test_any_image_is_taken_at_the_teachers_own_size(name: str, shape: tuple[int, int]) -> None:
    teacher = tiny(name)
    images = torch.rand(2, 3, *shape)
    output = teacher(images)
    resized = F.interpolate(images, size=(32, 32), mode="bilinear", antialias=True)
    assert output.grid is not None
    torch.testing.assert_close(output.grid, teacher(resized).grid, rtol=1e-4, atol=1e-5)
    if name == "mobile_sam":
        assert output.logits is None
        assert output.pooled is None
        assert output.grid.shape == (2, 5, 2, 2)
    else:
        assert output.logits is not None
        assert output.logits.shape == (2, 7)
        torch.testing.assert_close(output.pooled, output.grid.mean(dim=(2, 3)))


@pytest.mark.parametrize("name", list(TEACHERS))
def test_lower_precision_says_nearly_the_same(name: str) -> None:
    teacher, images = tiny(name, size=64), torch.rand(2, 3, 64, 64)
    full = teacher(images).grid
    with torch.autocast("cpu", torch.bfloat16):
        mixed = teacher(images).grid
    low = teacher.to(torch.bfloat16)(images).grid
    assert full is not None
    assert mixed is not None
    assert low is not None
    assert low.dtype == torch.bfloat16
    for other in (mixed, low):
        assert F.cosine_similarity(full.flatten(), other.float().flatten(), dim=0) > 0.99


@pytest.mark.parametrize("bad", [torch.rand(3, 8, 8), torch.rand(1, 1, 8, 8), torch.zeros(1, 3, 8, 8).byte()])
def test_what_is_no_batch_of_images_is_refused(bad: Tensor) -> None:
    with pytest.raises(ValueError, match=r"expected float images \(B, 3, H, W\)"):
        tiny("resnet50")(bad)


def test_normalization_is_that_of_the_weights() -> None:
    white = torch.ones(1, 3, 8, 8)
    assert tiny("resnet50", 8).prepare(white)[0, :, 0, 0].tolist() == pytest.approx(
        [255 - 123.68, 255 - 116.779, 255 - 103.939], abs=1e-3
    )
    assert tiny("efficientnet_lite0", 8).prepare(white)[0, :, 0, 0].tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert tiny("mobile_sam", 8).prepare(white)[0, 0, 0, 0].item() == pytest.approx((255 - 123.675) / 58.395)


# --- ResNet ----------------------------------------------------------------------------------------------------------


def keras_resnet(folder: Path, *, width: int = 4, depths: tuple[int, ...] = (2, 1)) -> dict[str, np.ndarray]:
    """Write a random Keras ResNet as TensorFlow.js does, in three shards; give back its weights."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    layers = []

    def add(conv: str, norm: str, kernel: int, inputs: int, outputs: int) -> None:
        weights[f"{conv}/kernel"] = random.normal(size=(kernel, kernel, inputs, outputs)) / kernel / inputs**0.5
        weights[f"{conv}/bias"] = random.normal(size=outputs)
        for part in ("gamma", "beta", "moving_mean"):
            weights[f"{norm}/{part}"] = random.normal(size=outputs)
        weights[f"{norm}/moving_variance"] = random.uniform(0.1, 2.0, outputs)
        layers.extend([{"config": {"name": conv}}, {"config": {"name": norm, "epsilon": 0.25}}])

    add("conv1", "bn_conv1", 7, 3, width)
    weights["conv1/kernel"] /= 50  # inputs reach 255
    inputs = width
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        for block in range(depth):
            name = f"{stage + 2}{'ab'[block]}_branch"
            add(f"res{name}2a", f"bn{name}2a", 1, inputs, inner)
            add(f"res{name}2b", f"bn{name}2b", 3, inner, inner)
            add(f"res{name}2c", f"bn{name}2c", 1, inner, 4 * inner)
            if block == 0:
                add(f"res{name}1", f"bn{name}1", 1, inputs, 4 * inner)
            inputs = 4 * inner
    weights["fc1000/kernel"], weights["fc1000/bias"] = random.normal(size=(inputs, 5)), random.normal(size=5)
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    data = b"".join(value.tobytes() for value in weights.values())
    cuts = [0, 1001, 5000, len(data)]  # shards end anywhere, even within a number
    shards = [f"shard{place}.bin" for place in range(3)]
    folder.mkdir(parents=True, exist_ok=True)
    for shard, (start, end) in zip(shards, itertools.pairwise(cuts), strict=True):
        (folder / shard).write_bytes(data[start:end])
    entries = [{"name": name, "shape": list(value.shape), "dtype": "float32"} for name, value in weights.items()]
    model = {
        "modelTopology": {"model_config": {"config": {"layers": layers}}},
        "weightsManifest": [{"paths": shards, "weights": entries}],
    }
    (folder / "model.json").write_text(json.dumps(model), "utf-8")
    return weights


def test_resnet_is_keras_resnet(tmp_path: Path) -> None:
    """Unfolded, BGR in 0..255, the stride taken by dropping every other pixel before the first 1x1."""
    weights = keras_resnet(tmp_path)
    teacher = ResNet50(32, depths=(2, 1), width=4, classes=5, grid_stage=2)
    teacher.load_state_dict(resnet50.read_keras(tmp_path / "model.json", depths=(2, 1)))
    images = torch.rand(2, 3, 32, 32)

    def norm_conv(x: Tensor, name: str, **options: int) -> Tensor:
        norm = name.replace("res", "bn") if name.startswith("res") else f"bn_{name}"
        parts = [torch.from_numpy(weights[f"{norm}/{part}"]) for part in ("moving_mean", "moving_variance")]
        scale = [torch.from_numpy(weights[f"{norm}/{part}"]) for part in ("gamma", "beta")]
        kernel = torch.from_numpy(weights[f"{name}/kernel"]).permute(3, 2, 0, 1)
        x = F.conv2d(x, kernel, torch.from_numpy(weights[f"{name}/bias"]), **options)
        return F.batch_norm(x, parts[0], parts[1], scale[0], scale[1], eps=0.25)

    x = images.flip(1) * 255 - torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
    x = F.relu(norm_conv(x, "conv1", stride=2, padding=3))
    x = F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2)
    for name in ("2a", "2b", "3a"):
        x = x[:, :, ::2, ::2] if name == "3a" else x
        inner = F.relu(norm_conv(x, f"res{name}_branch2a"))
        inner = F.relu(norm_conv(inner, f"res{name}_branch2b", padding=1))
        inner = norm_conv(inner, f"res{name}_branch2c")
        x = F.relu(inner + (norm_conv(x, f"res{name}_branch1") if name != "2b" else x))
    logits = x.mean(dim=(2, 3)) @ torch.from_numpy(weights["fc1000/kernel"]) + torch.from_numpy(weights["fc1000/bias"])
    output = teacher(images)
    torch.testing.assert_close(output.grid, x, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(output.logits, logits, rtol=1e-3, atol=1e-3)


def test_resnet_gives_the_grid_of_the_stage_asked_for() -> None:
    images = torch.rand(1, 3, 64, 64)
    for stage, channels, side in [(2, 32, 8), (3, 64, 4), (4, 128, 2)]:
        output = tiny("resnet50", 64, grid_stage=stage)(images)
        assert output.grid is not None
        assert output.pooled is not None
        assert output.grid.shape == (1, channels, side, side)
        assert output.pooled.shape == (1, 128)
    with pytest.raises(UserError, match="1 to 4, got 5"):
        tiny("resnet50", grid_stage=5)


def test_a_cut_shard_is_told(tmp_path: Path) -> None:
    keras_resnet(tmp_path)
    (tmp_path / "shard2.bin").write_bytes(b"")
    with pytest.raises(UserError, match="not a whole TensorFlow"):
        resnet50.read_keras(tmp_path / "model.json")
    (tmp_path / "shard1.bin").unlink()
    with pytest.raises(UserError, match=r"shard1\.bin: No such file"):
        resnet50.read_keras(tmp_path / "model.json")


# --- EfficientNet-Lite -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "before", "after"),
    [(8, 3, 2, 0, 1), (7, 3, 2, 1, 1), (14, 5, 2, 1, 2), (7, 5, 2, 2, 2), (6, 5, 1, 2, 2), (4, 1, 2, 0, 0)],
)
def test_same_padding_is_tensorflows(side: int, kernel: int, stride: int, before: int, after: int) -> None:
    torch.manual_seed(0)
    convolution = SameConv2d(2, 3, kernel, stride=stride)
    x = torch.randn(1, 2, side, side)
    padded = F.pad(x, (before, after, before, after))
    expected = F.conv2d(padded, convolution.weight, convolution.bias, stride=stride)
    assert expected.shape[-1] == -(-side // stride)
    torch.testing.assert_close(convolution(x), expected)


def test_lite_is_its_unfolded_self() -> None:
    torch.manual_seed(0)
    weights: dict[str, Tensor] = {"_fc.weight": torch.randn(7, 10), "_fc.bias": torch.randn(7)}
    modules: dict[str, tuple[nn.Conv2d, nn.BatchNorm2d]] = {}

    def add(conv: str, norm: str, inputs: int, outputs: int, kernel: int, groups: int = 1) -> None:
        pair = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False), random_norm(outputs)
        pair[1].eps = efficientnet_lite0.BN_EPS
        modules[conv] = pair
        weights.update({f"{conv}.{name}": value for name, value in pair[0].state_dict().items()})
        weights.update({f"{norm}.{name}": value for name, value in pair[1].state_dict().items()})

    stages = (Stage(1, 3, 1, 1, 4), Stage(2, 5, 1, 2, 6))
    add("_conv_stem", "_bn0", 3, 4, 3)
    for block, (inputs, inner, outputs, kernel) in enumerate([(4, 4, 4, 3), (4, 8, 6, 5), (6, 12, 6, 5)]):
        prefix = f"_blocks.{block}."
        if block:
            add(f"{prefix}_expand_conv", f"{prefix}_bn0", inputs, inner, 1)
        add(f"{prefix}_depthwise_conv", f"{prefix}_bn1", inner, inner, kernel, groups=inner)
        add(f"{prefix}_project_conv", f"{prefix}_bn2", inner, outputs, 1)
    add("_conv_head", "_bn1", 6, 10, 1)

    teacher = EfficientNetLite0(8, stages=stages, stem=4, head=10, classes=7)
    teacher.load_state_dict(efficientnet_lite0.read_pytorch(weights, stages))
    images = torch.rand(2, 3, 8, 8)

    def run(name: str, x: Tensor) -> Tensor:
        convolution, norm = modules[name]
        return norm(convolution(x))  # type: ignore[no-any-return]

    with torch.no_grad():
        stem, norm = modules["_conv_stem"]
        pixels = F.pad((images * 255 - 127) / 128, (0, 1, 0, 1))
        x = F.relu6(norm(F.conv2d(pixels, stem.weight, stride=2)))
        for block in range(3):
            prefix = f"_blocks.{block}."
            wide = F.relu6(run(f"{prefix}_expand_conv", x)) if block else x
            narrow = run(f"{prefix}_project_conv", F.relu6(run(f"{prefix}_depthwise_conv", wide)))
            x = narrow if block == 1 else narrow + x  # block 1 changes the width
        x = F.relu6(run("_conv_head", x))
        output = teacher(images)
    torch.testing.assert_close(output.grid, x, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(output.logits, F.linear(x.mean((2, 3)), weights["_fc.weight"], weights["_fc.bias"]))
    del weights["_blocks.1._bn2.bias"]
    with pytest.raises(UserError, match=r"_blocks\.1\._bn2\.bias"):
        efficientnet_lite0.read_pytorch(weights, stages)


# --- MobileSAM -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(4, 4), (5, 9), (8, 3), (1, 1)])
def test_windows_come_back_where_they_were(height: int, width: int) -> None:
    grid = torch.randn(2, height, width, 3)
    windows = to_windows(grid, 4)
    assert windows.shape == (2 * -(-height // 4) * -(-width // 4), 16, 3)
    assert torch.equal(from_windows(windows, 4, height, width), grid)
    assert torch.equal(windows[0].view(4, 4, 3)[: min(height, 4), : min(width, 4)], grid[0, :4, :4])


def test_window_attention_is_the_plain_sum() -> None:
    torch.manual_seed(0)
    attention = WindowAttention(6, heads=2, window=2).eval()
    nn.init.normal_(attention.attention_biases)
    x = torch.randn(1, 4, 6)
    with torch.no_grad():
        got = attention(x)
        qkv = attention.qkv(attention.norm(x))[0]
        mixed = torch.zeros(4, 6)
        for head in range(2):
            q, k, v = (qkv[:, 9 * head + 3 * part : 9 * head + 3 * part + 3] for part in range(3))
            for one in range(4):
                scores = torch.stack([q[one] @ k[two] / 3**0.5 for two in range(4)])
                for two in range(4):
                    dy, dx = abs(one // 2 - two // 2), abs(one % 2 - two % 2)
                    scores[two] += attention.attention_biases[head, 2 * dy + dx]
                mixed[one, 3 * head : 3 * head + 3] = scores.softmax(0) @ v
        torch.testing.assert_close(got[0], attention.proj(mixed))


def test_a_grid_that_windows_do_not_tile_is_padded_and_cropped() -> None:
    torch.manual_seed(0)
    block = WindowBlock(4, heads=2, window=3).eval().requires_grad_(False)
    grid = torch.randn(1, 4, 4, 5)
    padded = torch.zeros(1, 4, 6, 6)
    padded[:, :, :4, :5] = grid
    attended = torch.zeros(1, 4, 6, 6)
    for top, left in itertools.product((0, 3), (0, 3)):
        patch = padded[0, :, top : top + 3, left : left + 3]
        out = block.attn(patch.flatten(1).T.unsqueeze(0))[0].T
        attended[0, :, top : top + 3, left : left + 3] = out.view(4, 3, 3)
    mixed = block.local_conv(grid + attended[:, :, :4, :5])
    expected = mixed + block.mlp(mixed.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(block(grid), expected)


def test_mobile_sam_folds_its_package_and_leaves_the_decoder() -> None:
    teacher = tiny("mobile_sam")
    theirs: dict[str, Tensor] = {"mask_decoder.x.weight": torch.zeros(1), "image_encoder.head.weight": torch.zeros(1)}
    norms: dict[str, nn.BatchNorm2d] = {}
    for name, module in teacher.named_modules():
        package = "image_encoder." + name.replace("patch_embed.", "patch_embed.seq.")
        if isinstance(module, nn.Conv2d) and module.bias is not None:
            assert module.bias is not None
            norms[name] = random_norm(module.out_channels)
            theirs[f"{package}.c.weight"] = module.weight
            theirs.update({f"{package}.bn.{key}": value for key, value in norms[name].state_dict().items()})
        elif not list(module.children()):
            theirs.update({f"{package}.{key}": value for key, value in module.state_dict().items()})
        elif isinstance(module, WindowAttention):
            theirs[f"{package}.attention_biases"] = module.attention_biases
    state = mobile_sam.read_pytorch(theirs)
    assert set(state) == set(teacher.state_dict())
    pixels = torch.randn(1, 3, 9, 9)
    stem = teacher.get_submodule("patch_embed.0")
    assert isinstance(stem, nn.Conv2d)
    expected = norms["patch_embed.0"](F.conv2d(pixels, stem.weight, stride=2, padding=1))
    teacher.load_state_dict(state)
    torch.testing.assert_close(stem(pixels), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match="image_encoder"):
        mobile_sam.read_pytorch({"encoder.weight": torch.zeros(1)})


@pytest.mark.parametrize("size", [32, 64, 96])
def test_mobile_sam_keeps_stride_sixteen(size: int) -> None:
    output = tiny("mobile_sam", size)(torch.rand(1, 3, size, size))
    assert output.grid is not None
    assert output.grid.shape == (1, 5, size // 16, size // 16)
    assert isinstance(MobileSam().get_submodule("neck.0"), nn.Conv2d)


# --- MiniLM ----------------------------------------------------------------------------------------------------------

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "un",
    "##aff",
    "##able",
    "a",
    "cafe",
    "dog",
    "##s",
    "-",
    "!",
    "'",
    "狗",
]


def test_a_vocabulary_without_marks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\na\n", "utf-8")
    with pytest.raises(UserError, match=r"\[SEP\] missing"):
        read_vocabulary(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
    assert read_vocabulary(tmp_path / "vocab.txt").number["狗"] == 14


def bert_state(width: int, inner: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    state = {
        "embeddings.word_embeddings.weight": torch.randn(len(VOCABULARY), width),
        "embeddings.position_embeddings.weight": torch.randn(16, width),
        "embeddings.token_type_embeddings.weight": torch.randn(2, width),
    }
    shapes = {
        "attention.output.dense": (width, width),
        "intermediate.dense": (inner, width),
        "output.dense": (width, inner),
    }
    shapes |= {f"attention.self.{role}": (width, width) for role in ("query", "key", "value")}
    for layer in range(2):
        for name, shape in shapes.items():
            state[f"encoder.layer.{layer}.{name}.weight"] = torch.randn(shape) / shape[1] ** 0.5
            state[f"encoder.layer.{layer}.{name}.bias"] = torch.randn(shape[0])
    norms = ["embeddings", *(f"encoder.layer.{n}.{part}" for n in range(2) for part in ("attention.output", "output"))]
    for name in norms:
        state[f"{name}.LayerNorm.weight"], state[f"{name}.LayerNorm.bias"] = torch.randn(width), torch.randn(width)
    return state


def test_minilm_is_a_post_norm_transformer_and_padding_is_unseen() -> None:
    state = bert_state(8, 12)
    model = MiniLM(
        WordPiece(VOCABULARY), vocabulary=len(VOCABULARY), width=8, depth=2, heads=2, inner=12, positions=16
    ).eval()
    model.load_state_dict(read_bert(state, depth=2))
    texts = ["a dog", "unaffable dogs!", "a", "cafe - a dog - cafe"]
    got = model.embed(texts, batch=3)
    for text, vector in zip(texts, got, strict=True):
        tokens = torch.tensor(model.tokenizer.encode(text))
        x = state["embeddings.word_embeddings.weight"][tokens]
        x = x + state["embeddings.position_embeddings.weight"][: len(tokens)]
        x = x + state["embeddings.token_type_embeddings.weight"][0]
        x = F.layer_norm(x, (8,), state["embeddings.LayerNorm.weight"], state["embeddings.LayerNorm.bias"], 1e-12)
        x = x.unsqueeze(0)
        for number in range(2):
            layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", 1e-12, batch_first=True)
            theirs = {name.removeprefix(f"encoder.layer.{number}."): value for name, value in state.items()}
            names = {"self_attn.out_proj": "attention.output.dense", "linear1": "intermediate.dense"}
            names |= {"linear2": "output.dense", "norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
            mapped = {f"{ours}.{p}": theirs[f"{name}.{p}"] for ours, name in names.items() for p in ("weight", "bias")}
            for part in ("weight", "bias"):
                roles = [theirs[f"attention.self.{role}.{part}"] for role in ("query", "key", "value")]
                mapped[f"self_attn.in_proj_{part}"] = torch.cat(roles)
            layer.load_state_dict(mapped)
            with torch.no_grad():
                x = layer(x)
        torch.testing.assert_close(vector, F.normalize(x[0].mean(0), dim=0), rtol=1e-4, atol=1e-5)
    assert model.embed([]).shape == (0, 8)


# --- files -----------------------------------------------------------------------------------------------------------


def test_weights_survive_the_round_trip_in_half_precision(tmp_path: Path) -> None:
    teacher = tiny("resnet50")
    write_weights(tmp_path / "resnet50.safetensors", teacher.state_dict(), source="a test")
    back = load_teacher("resnet50", tmp_path, size=32, depths=(2, 1, 1, 1), width=4, classes=7)
    assert not back.training
    for name, value in back.state_dict().items():
        assert value.dtype == torch.float32
        assert not value.requires_grad
        assert torch.equal(value, teacher.state_dict()[name].half().float())


def test_values_beyond_half_precision_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="big holds values"):
        write_weights(tmp_path / "x.safetensors", {"big": torch.tensor([1e6])}, source="a test")
    assert list(tmp_path.iterdir()) == []


def test_loading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'resnet50'"):
        load_teacher("resnet-50", tmp_path)
    with pytest.raises(UserError, match=r"resnet50\.safetensors: no such file"):
        load_teacher("resnet50", tmp_path)
    (tmp_path / "resnet50.safetensors").write_bytes(b"not this")
    with pytest.raises(UserError, match="expected a safetensors file"):
        load_teacher("resnet50", tmp_path)
    write_weights(tmp_path / "mobile_sam.safetensors", tiny("mobile_sam").state_dict(), source="a test")
    with pytest.raises(UserError, match="does not fit MobileSam"):
        load_teacher("mobile_sam", tmp_path)


class _Malice:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("ran",)


def test_the_converter_ends_with_code_two_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    malice = tmp_path / "malice.pth"
    malice.write_bytes(pickle.dumps(_Malice(), protocol=2))
    torch.save([1, 2], tmp_path / "list.pth")
    out = str(tmp_path / "out")
    for arguments, message in [
        ([], "Nothing to convert"),
        (["--resnet50", str(tmp_path / "none")], "expected a folder"),
        (["--resnet50", str(tmp_path)], "model.json: No such file"),
        (["--efficientnet-lite0", str(tmp_path / "none.pth")], "none.pth: No such file"),
        (["--mobile-sam", str(malice)], "expected a PyTorch file of tensors"),
        (["--mobile-sam", str(tmp_path / "list.pth")], "expected a dictionary of tensors, found list"),
        (["--minilm", str(tmp_path)], "vocab.txt: No such file"),
    ]:
        assert convert.main([*arguments, "--out", out]) == 2
        told = capsys.readouterr()
        assert message in told.err
        assert told.out == ""
    assert not Path(out).exists()


# --- the check -------------------------------------------------------------------------------------------------------


def test_the_check_reads_squares_and_counts_hits(tmp_path: Path) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 20:60] = 255  # the central square
    Image.fromarray(pixels).save(tmp_path / f"{WNIDS[3]}_stripe.png")
    assert check.read_square(tmp_path / f"{WNIDS[3]}_stripe.png", 40).min() == 1
    for wnid in (WNIDS[0], WNIDS[999], "n00000000"):
        Image.fromarray(pixels).save(tmp_path / f"{wnid}_x.JPEG")
    assert [place for _, place in check.list_samples(tmp_path, 10)] == [0, 999]
    assert len(check.list_samples(tmp_path, 1)) == 1
    with pytest.raises(UserError, match="found no images"):
        check.list_folders(tmp_path, 10)

    teacher = tiny("resnet50")
    images = torch.rand(6, 3, 32, 32)
    logits = teacher(images).logits
    assert logits is not None
    classes = logits.argmax(1)
    classes[0] = logits[0].argmin()  # last of seven: not even among the first five
    row = check.measure(teacher, "made", images, classes, batch=4)
    assert (row.images, row.size) == (6, 32)
    assert row.top1 == row.top5 == pytest.approx(5 / 6, abs=1e-4)
    with pytest.raises(UserError, match="no classifier"):
        check.measure(tiny("mobile_sam"), "made", images, classes)
