"""`open_clip/…` on tiny models built here, against open_clip's own forward; no hub."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from conceptlens.api import predict, train
from conceptlens.core.errors import UserError
from conceptlens.encoders import list_encoders, make_encoder, make_text_encoder, text_encoder_name
from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.freezing import set_trainable
from conceptlens.encoders.open_clip import files as open_clip_files
from conceptlens.encoders.open_clip.encoder import OpenClipTrunk, OpenClipViT
from conceptlens.encoders.timm import hub
from conceptlens.recipes.schema import EncoderConfig
from conceptlens.runs.saved import load_pipeline
from tests.training.tiny import tiny

open_clip = pytest.importorskip("open_clip")
TEXTS = ["a round cell", "a cell with a lobed nucleus and pale cytoplasm"]
TEXT = {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
VIT = {"image_size": 32, "layers": 3, "width": 64, "head_width": 16, "patch_size": 8}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "round", "cell", "with"]
WORDS += ["lobed", "nucleus", "and", "pale", "cytoplasm"]


def write(folder: Path, model: dict[str, Any], **preprocess: Any) -> Any:
    """A model of this configuration, and a folder that holds it."""
    folder.mkdir(exist_ok=True)
    config = {"model_cfg": model, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(3)
    built = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False).eval()
    for parameter in built.visual.parameters():  # norms at one and zero would hide one that is left out
        parameter.data.add_(0.02 * torch.randn_like(parameter))
    save_file(built.state_dict(), folder / "open_clip_model.safetensors")
    return built


@pytest.fixture
def clip(tmp_path: Path) -> tuple[str, Any]:
    model = {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": TEXT, "quick_gelu": True}
    built = write(tmp_path / "clip", model, mean=[0.4, 0.5, 0.6], std=[0.2, 0.2, 0.3])
    return f"open_clip/local-dir:{tmp_path / 'clip'}", built


def biomed(folder: Path, trunk: str = "test_vit", **vision: Any) -> Any:
    """BiomedCLIP's layout: a timm ViT, and a BERT from Hugging Face with its tokenizer and an MLP on its [CLS]."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir(exist_ok=True)
    bert = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    bert.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    vision = {"timm_model_name": trunk, "timm_pool": "", "timm_proj": "linear", "image_size": 160, **vision}
    text = {
        "hf_model_name": str(folder),
        "hf_tokenizer_name": str(folder),
        "hf_proj_type": "mlp",
        "hf_pooler_type": "cls_last_hidden_state_pooler",
        "context_length": 24,
    }
    built = write(folder, {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text})
    old = {"text.transformer.embeddings.position_ids": torch.arange(512)[None]}  # the published file has it
    save_file({**built.state_dict(), **old}, folder / "open_clip_model.safetensors")
    config = json.loads((folder / "open_clip_config.json").read_text())
    # The published configuration names the text model on the hub; everything must come from the folder.
    config["model_cfg"]["text_cfg"] |= {"hf_model_name": "nobody/bert", "hf_tokenizer_name": "nobody/bert"}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return built


def make(name: str, **settings: Any) -> Encoder:
    return make_encoder(EncoderConfig(name=name, **settings)).eval()


@torch.no_grad()
def test_image_and_text_are_open_clip_s(clip: tuple[str, Any]) -> None:
    name, reference = clip
    encoder, images = make(name, layers=[0, -1]), torch.rand(2, 3, 32, 32)
    assert isinstance(encoder, OpenClipViT)
    assert (encoder.mean, encoder.std, encoder.image_size) == ((0.4, 0.5, 0.6), (0.2, 0.2, 0.3), 32)
    tokens, pixels = encoder(images), encoder.normalize(images)
    expected = reference.visual.forward_intermediates(pixels, indices=[0, 2], output_fmt="NLC")
    assert tokens.grid == encoder.grid(32, 32) == (4, 4)
    torch.testing.assert_close(tokens.patches, expected["image_intermediates"][1])
    torch.testing.assert_close(tokens.layers[0], expected["image_intermediates"][0])
    torch.testing.assert_close(tokens.layers[1], tokens.patches)
    torch.testing.assert_close(encoder.embed(tokens), reference.encode_image(pixels, normalize=True), atol=1e-5, rtol=0)
    projected = reference.visual.ln_post(tokens.patches) @ reference.visual.proj
    torch.testing.assert_close(encoder.embed_patches(tokens), torch.nn.functional.normalize(projected, dim=-1))
    normed = make(name, final_norm=True)(images)
    torch.testing.assert_close(normed.patches, reference.visual.ln_post(expected["image_intermediates"][1]))
    torch.testing.assert_close(normed.cls, tokens.cls)
    assert encoder.text is not None
    text = make_text_encoder(encoder.text)
    vectors = text.embed(TEXTS)
    numbers = open_clip.get_tokenizer(name.removeprefix("open_clip/"))(TEXTS)
    torch.testing.assert_close(vectors, reference.encode_text(numbers, normalize=True), atol=1e-5, rtol=0)
    assert vectors.shape == (2, text.width) == (2, 24)
    assert text.embed([]).shape == (0, 24)


@torch.no_grad()
def test_biomedclip_s_layout(tmp_path: Path) -> None:
    reference = biomed(tmp_path / "biomed")
    encoder, images = make(f"open_clip/local-dir:{tmp_path / 'biomed'}"), torch.rand(2, 3, 160, 160)
    assert isinstance(encoder, OpenClipTrunk)
    tokens, pixels = encoder(images), encoder.normalize(images)
    assert tokens.grid == (10, 10)
    assert encoder.text is not None
    features = reference.visual.trunk.forward_features(pixels)
    torch.testing.assert_close(tokens.cls, features[:, 0])
    torch.testing.assert_close(reference.visual.trunk.norm(tokens.patches), features[:, 1:])
    torch.testing.assert_close(encoder.embed(tokens), reference.encode_image(pixels, normalize=True), atol=1e-5, rtol=0)
    text = make_text_encoder(encoder.text)
    numbers = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'biomed'}")(TEXTS)
    assert numbers[1, :11].tolist() == [2, 5, 7, 8, 5, 9, 10, 11, 12, 13, 3]  # whole words of the folder's tokenizer
    torch.testing.assert_close(text.embed(TEXTS), reference.encode_text(numbers, normalize=True), atol=1e-5, rtol=0)
    assert not torch.allclose(text.embed(TEXTS)[0], text.embed(TEXTS)[1])


@torch.no_grad()
@pytest.mark.parametrize("final_norm", [False, True])
@pytest.mark.parametrize(
    ("trunk", "pool", "proj"),
    [
        ("test_vit2", "map", "none"),  # SigLIP
        ("test_vit", "avg", ""),
        ("test_vit", "token", ""),  # EVA02
        ("test_convnext", "", "linear"),
        ("test_vit", "map", ""),  # PE-Core
    ],
)
def test_other_ways_of_pooling(trunk: str, pool: str, proj: str, final_norm: bool, tmp_path: Path) -> None:
    import timm

    width = timm.create_model(trunk).num_features
    vision = {"timm_model_name": trunk, "timm_pool": pool, "timm_proj": proj, "image_size": 160}
    reference = write(tmp_path / "it", {"embed_dim": width, "vision_cfg": vision, "text_cfg": TEXT})
    encoder = make(f"open_clip/local-dir:{tmp_path / 'it'}", final_norm=final_norm)
    images = torch.rand(2, 3, 160, 160)
    expected = reference.encode_image(encoder.normalize(images), normalize=True)
    torch.testing.assert_close(encoder.embed(encoder(images)), expected, atol=1e-5, rtol=0)
    tokens = encoder(images)
    found = encoder.embed_patches(tokens)
    assert found.shape == (2, tokens.patches.shape[1], width)
    if pool == "avg":  # each patch as the mean of an image that shows nothing else
        alone = Tokens(tokens.patches[:, 3:4].expand_as(tokens.patches), tokens.grid, tokens.cls)
        torch.testing.assert_close(found[:, 3], encoder.embed(alone), atol=1e-5, rtol=0)


def test_registers_that_would_be_pooled(tmp_path: Path) -> None:
    vision = {"timm_model_name": "test_vit3", "timm_pool": "map", "timm_proj": "none", "image_size": 160}
    write(tmp_path / "it", {"embed_dim": 96, "vision_cfg": vision, "text_cfg": TEXT})
    encoder = make(f"open_clip/local-dir:{tmp_path / 'it'}")
    tokens = encoder(torch.rand(1, 3, 160, 160))
    assert tokens.patches.shape == (1, 100, 96)
    with pytest.raises(UserError, match="cannot be compared with texts"):
        encoder.embed(tokens)


@torch.no_grad()
def test_another_size_is_open_clip_s_at_that_size(clip: tuple[str, Any]) -> None:
    name, _ = clip
    encoder = make(name, image_size=48)
    assert encoder.image_size == 48
    images = torch.rand(1, 3, 48, 48)
    larger = open_clip.create_model(name.removeprefix("open_clip/"), force_image_size=48).eval()
    expected = larger.encode_image(encoder.normalize(images), normalize=True)
    torch.testing.assert_close(encoder.embed(encoder(images)), expected, atol=1e-5, rtol=0)
    assert encoder(torch.rand(1, 3, 40, 64)).grid == encoder.grid(40, 64) == (5, 8)
    with pytest.raises(UserError, match="at least 8 × 8 pixels"):
        encoder(torch.rand(1, 3, 4, 64))


@torch.no_grad()
def test_another_size_of_a_trunk(tmp_path: Path) -> None:
    biomed(tmp_path / "biomed")
    encoder = make(f"open_clip/local-dir:{tmp_path / 'biomed'}", image_size=224)
    tokens = encoder(torch.rand(1, 3, 224, 224))
    assert tokens.grid == (14, 14)
    assert encoder.embed(tokens).norm().item() == pytest.approx(1)
    with pytest.raises(UserError, match="cannot read images of 100 × 100"):
        encoder.grid(100, 100)


@pytest.mark.parametrize("kind", ["vit", "trunk"])
def test_what_learns(kind: str, clip: tuple[str, Any], tmp_path: Path) -> None:
    name = clip[0]
    if kind == "trunk":
        biomed(tmp_path / "biomed")
        name = f"open_clip/local-dir:{tmp_path / 'biomed'}"
    encoder = make_encoder(EncoderConfig(name=name))
    set_trainable(encoder, "all")
    tokens = encoder(torch.rand(2, 3, encoder.image_size, encoder.image_size))
    assert tokens.cls is not None
    (tokens.patches.square().sum() + (tokens.cls * torch.rand_like(tokens.cls)).sum()).backward()
    learns = {key for key, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert {key for key, parameter in encoder.named_parameters() if parameter.grad is not None} == learns
    assert learns == {key for key, _ in encoder.named_parameters() if not key.startswith("to_text")}
    set_trainable(encoder, 1)
    last = [*encoder.blocks()[-1].parameters(), *(each for part in encoder.tail() for each in part.parameters())]
    assert {id(p) for p in encoder.parameters() if p.requires_grad} == {id(p) for p in last}


@torch.no_grad()
@pytest.mark.parametrize("kind", ["vit", "trunk"])
@pytest.mark.parametrize("blocks", [0, 2])
def test_cut_for_the_token_store(kind: str, blocks: int, clip: tuple[str, Any], tmp_path: Path) -> None:
    name = clip[0]
    if kind == "trunk":
        biomed(tmp_path / "biomed")
        name = f"open_clip/local-dir:{tmp_path / 'biomed'}"
    encoder = make(name)
    pixels = torch.rand(2, 3, encoder.image_size, encoder.image_size)
    whole = encoder.tokens(pixels)
    parts = encoder.after(encoder.before(pixels, blocks), Cut(blocks, whole.grid))
    torch.testing.assert_close(parts.patches, whole.patches)
    torch.testing.assert_close(parts.cls, whole.cls)


def test_text_auto_is_the_encoder_s_own(clip: tuple[str, Any]) -> None:
    own = make(clip[0])
    assert text_encoder_name("auto", own) == clip[0]
    assert text_encoder_name("builtin/text", own) == "builtin/text"
    fresh = make("timm/test_vit", pretrained=False)
    assert text_encoder_name("auto", fresh) == "builtin/text"


@torch.no_grad()
def test_structure_builds_it_again_without_its_folder(tmp_path: Path) -> None:
    biomed(tmp_path / "biomed")
    name = f"open_clip/local-dir:{tmp_path / 'biomed'}"
    encoder = make(name)
    (tmp_path / "biomed").rename(tmp_path / "away")
    assert encoder.structure is not None
    again = make(name, pretrained=False, options={"structure": encoder.structure})
    again.load_state_dict(encoder.state_dict())
    images = torch.rand(1, 3, 160, 160)
    assert torch.equal(again(images).patches, encoder(images).patches)
    assert (again.mean, again.image_size) == (encoder.mean, encoder.image_size)


@pytest.mark.parametrize("store", [None, "run"])
def test_a_run_needs_the_folder_only_while_it_trains(
    store: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    biomed(tmp_path / "biomed", image_size=160)
    monkeypatch.chdir(tmp_path)
    encoder = {"name": "open_clip/local-dir:biomed", "image_size": 64, "train": 1, "text": "auto", "store": store}
    recipe = tiny(tmp_path / "run", encoder=encoder, training__epochs=1, data__shapes={"n": 48, "size": 32})
    run = train(recipe, quiet=True)
    assert f"open_clip/local-dir:{tmp_path / 'biomed'}" in (run.path / "recipe.yaml").read_text()  # from anywhere
    (tmp_path / "biomed").rename(tmp_path / "away")
    Image.new("RGB", (40, 40), "red").save(tmp_path / "red.png")
    found = predict(run.path, [tmp_path / "red.png"]).items[0]
    assert found.error is None
    pipeline, card, _ = load_pipeline(run.path)
    assert card.image_size == 64
    assert pipeline.model.text.shape[1] == 24  # type: ignore[union-attr]


def test_pickles_are_never_opened(clip: tuple[str, Any], tmp_path: Path) -> None:
    (tmp_path / "clip" / "open_clip_model.safetensors").unlink()
    (tmp_path / "clip" / "open_clip_pytorch_model.bin").write_bytes(b"not even a pickle")
    for read in (make, make_text_encoder):
        with pytest.raises(UserError, match=r"never loaded(.|\n)*'open_clip_pytorch_model.safetensors'"):
            read(clip[0])


def test_folders_that_do_not_fit(clip: tuple[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "clip"
    with pytest.raises(UserError, match="found no folder"):
        make(f"open_clip/local-dir:{tmp_path / 'absent'}")
    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match="found only other files"):
        make(f"open_clip/local-dir:{tmp_path / 'other'}")
    config = json.loads((folder / "open_clip_config.json").read_text())
    for change, words in (
        ({"vision_cfg": {**VIT, "layers": 4}}, "does not fit: it lacks"),
        ({"vision_cfg": {**VIT, "colour": 4}}, "cannot build a tower.*colour"),
        ({"vision_cfg": {**VIT, "layers": [1, 1, 1, 1]}}, "timm/resnet50_clip.openai"),
        ({"vision_cfg": {**VIT, "attentional_pool": True}}, "attentional pooling"),
        ({"vision_cfg": {"timm_model_name": "no_such_vit"}}, "which this timm does not have"),
        ({"embed_dim": "wide"}, "embed_dim is not there"),
    ):
        (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": {**config["model_cfg"], **change}}))
        with pytest.raises(UserError, match=words):
            make(clip[0])
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    (folder / "open_clip_model.safetensors").unlink()
    with pytest.raises(UserError, match=r"expected weights called .*, found none"):
        make(clip[0])
    assert make(clip[0], pretrained=False).width == 64


def test_a_text_tower_with_code_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "biomed"
    biomed(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "code.Model"}}))
    with pytest.raises(UserError, match="without code of its own"):
        make_text_encoder(f"open_clip/local-dir:{folder}")


def _offline(monkeypatch: pytest.MonkeyPatch, files: dict[str, Path]) -> list[tuple[str, str]]:
    asked = []

    def download(repository: str, file: str, revision: str | None = None, *, local_files_only: bool) -> str:
        asked.append((repository, file))
        if file not in files:
            raise ConnectionError("no route")
        return str(files[file])

    monkeypatch.setattr(hub, "hf_hub_download", download)
    return asked


def test_a_repository_on_the_hub(clip: tuple[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "clip"
    files = {file.name: file for file in folder.iterdir()}
    asked = _offline(monkeypatch, files)
    encoder = make("open_clip/hf-hub:someone/clip")
    assert asked == [("someone/clip", "open_clip_config.json"), ("someone/clip", "open_clip_model.safetensors")]
    images = torch.rand(1, 3, 32, 32)
    assert torch.equal(encoder(images).patches, make(clip[0])(images).patches)
    _offline(monkeypatch, {})
    with pytest.raises(UserError, match=r"ConnectionError: no route.*open_clip/local-dir:FOLDER"):
        make("open_clip/hf-hub:someone/clip")


def test_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _offline(monkeypatch, {})
    for name in ("ViT-B-16/laion2b_s34b_b88k", "ViT-B-16/openai"):
        with pytest.raises(UserError, match="local-dir:FOLDER"):
            make_text_encoder(f"open_clip/{name}")
    assert asked == [
        ("laion/CLIP-ViT-B-16-laion2B-s34B-b88K", "open_clip_model.safetensors"),
        ("timm/vit_base_patch16_clip_224.openai", "open_clip_model.safetensors"),
    ]
    assert open_clip_files.resolve("open_clip/ViT-B-16/openai").model["quick_gelu"] is True
    assert open_clip_files.resolve("open_clip/ViT-B-16/laion2b_s34b_b88k").model["quick_gelu"] is False
    assert "open_clip/ViT-B-16/laion2b_s34b_b88k" in list_encoders("open_clip/ViT-B-16/*")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("open_clip/ViT-B-16", r"expected the tag.*laion2b_s34b_b88k"),
        ("open_clip/ViT-B-61", "Did you mean 'open_clip/ViT-B-16'"),
        ("open_clip/ViT-B-16/laion2b", "no weights with the tag 'laion2b'"),
    ],
)
def test_names_that_do_not_exist(name: str, message: str) -> None:
    for read in (make_text_encoder, open_clip_files.resolve):
        if read is open_clip_files.resolve and name == "open_clip/ViT-B-16":
            continue
        with pytest.raises(UserError, match=message):
            read(name)
    with pytest.raises(UserError, match="no option 'depth'"):
        make(name, options={"depth": 3})


@pytest.mark.parametrize(("name", "side", "width"), [("ViT-L-14", 16, 1024), ("ViT-B-16", 14, 768)])
def test_layout_of_the_published_sizes(name: str, side: int, width: int) -> None:
    with torch.device("meta"):  # the real architecture, without its memory
        encoder = make(f"open_clip/{name}", pretrained=False)
        tokens = encoder.tokens(torch.empty(1, 3, 224, 224))
    assert tokens.grid == (side, side)
    assert tokens.patches.shape == (1, side * side, width)
    assert encoder.text is None  # no tag, no weights


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(UserError, match=r"pip install 'conceptlens\[open-clip\]'"):
        make("open_clip/ViT-B-16")


@torch.no_grad()
def test_siglip_s_layout_with_its_tokenizer(tmp_path: Path) -> None:
    """A timm trunk with attention pooling, a text tower that reads both ways, and a tokenizer of its own."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS[5:]])}
    own = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    folder = tmp_path / "siglip"
    fast.save_pretrained(folder)
    vision = {"timm_model_name": "test_vit2", "timm_pool": "map", "timm_proj": "none", "image_size": 160}
    text = {
        "context_length": 12,
        "vocab_size": len(words),
        "hf_tokenizer_name": str(folder),
        "tokenizer_kwargs": {"clean": "canonicalize"},
        "width": 32,
        "heads": 2,
        "layers": 2,
        "no_causal_mask": True,
        "proj_bias": True,
        "pool_type": "last",
        "norm_kwargs": {"eps": 1e-6},
    }
    model = {"embed_dim": 64, "init_logit_bias": -10, "custom_text": True, "vision_cfg": vision, "text_cfg": text}
    built = write(folder, model, mean=[0.5] * 3, std=[0.5] * 3)
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "nobody/siglip"  # as published: it must come from the folder
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    encoder, images = make(f"open_clip/local-dir:{folder}"), torch.rand(2, 3, 160, 160)
    expected = built.encode_image(encoder.normalize(images), normalize=True)
    torch.testing.assert_close(encoder.embed(encoder(images)), expected, atol=1e-5, rtol=0)
    assert encoder.text is not None
    text_encoder = make_text_encoder(encoder.text)
    numbers = open_clip.get_tokenizer(f"local-dir:{folder}")(["A round cell!"])
    assert numbers[0, :3].tolist() == [words["a"], words["round"], words["cell"]]  # canonical: small, no marks
    vectors = text_encoder.embed(["A round cell!", "a lobed nucleus"])
    torch.testing.assert_close(vectors[:1], built.encode_text(numbers, normalize=True), atol=1e-5, rtol=0)
