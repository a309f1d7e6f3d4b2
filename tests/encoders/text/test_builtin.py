"""The trained text tower: a small one made here, and the one that ships where it is installed."""

import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, stored, write_json
from conceptlens.encoders.text.builtin import WEIGHTS, BuiltinText
from conceptlens.encoders.text.int8_rows import dequantize, pack, quantize, unpack
from conceptlens.encoders.text.tower import TextTower
from pretraining.text.export import export_tower

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS), ",", "with", "without"]
SIZES = {"piece_width": 24, "width": 16, "depth": 2, "heads": 2, "out": 12, "longest": 16}
shipped = pytest.mark.skipif(not stored(WEIGHTS).exists(), reason="this copy has no trained text tower")


def make_tower() -> TextTower:
    torch.manual_seed(3)
    tower = TextTower(len(PIECES), **SIZES).eval()
    for value in tower.parameters():  # a fresh tower hardly mixes its tokens
        torch.nn.init.normal_(value, std=0.4)
    return tower


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_tower(tmp_path_factory.mktemp("tower"), make_tower(), PIECES, {})


@pytest.fixture(scope="module")
def encoder(path: Path) -> BuiltinText:
    return BuiltinText(path)


def test_unit_vectors(encoder: BuiltinText) -> None:
    vectors = encoder.embed(["pink granules", "a", "word " * 3000])
    assert vectors.shape == (3, encoder.width) == (3, 12)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    assert encoder.embed([]).shape == (0, 12)


def test_a_phrase_does_not_depend_on_its_company(encoder: BuiltinText) -> None:
    texts = [f"a cell with {'dark ' * (index % 5)}granules {LETTERS[index % 26]}" for index in range(200)]
    together = encoder.embed(texts)
    alone = torch.cat([encoder.embed([text]) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_padding_has_no_influence() -> None:
    tower = make_tower()
    numbers = torch.tensor([[2, 5, 9, 7, 3]])
    alone = tower(numbers, torch.ones_like(numbers, dtype=torch.bool))
    for pad in (0, 11):  # whatever stands where the padding is
        padded = torch.cat([numbers, torch.full((1, 4), pad)], 1)
        real = torch.arange(9)[None] < 5
        torch.testing.assert_close(tower(padded, real), alone)


def test_the_same_every_time_and_random_numbers_are_left_alone(path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = BuiltinText(path).embed(["blue cells"]), BuiltinText(path).embed(["blue cells"])
    assert torch.equal(first, second)
    assert torch.equal(torch.rand(3), expected)


def test_vectors_may_take_part_in_training(encoder: BuiltinText) -> None:
    weight = torch.ones(12, requires_grad=True)
    (encoder.embed(["blue"]) * weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None


def test_the_order_of_words_matters(encoder: BuiltinText) -> None:
    first, second = encoder.embed(["red cell blue disc", "blue cell red disc"])
    assert float((first - second).norm()) > 1e-3  # a bag of words would give rounding errors of 1e-7


def test_case_and_accents_do_not_matter(encoder: BuiltinText) -> None:
    assert torch.equal(encoder.embed(["Naïve  CELL"]), encoder.embed(["naive cell"]))


def test_int8_rows_are_within_half_a_step() -> None:
    matrix = torch.randn(50, 33, generator=torch.Generator().manual_seed(0)) * torch.logspace(-4, 3, 50)[:, None]
    matrix[7] = 0
    rows, steps = quantize(matrix)
    assert (rows.dtype, steps.dtype) == (torch.int8, torch.float32)
    assert bool(((dequantize(rows, steps) - matrix).abs() <= steps[:, None] * 0.5001).all())
    assert not dequantize(rows, steps)[7].any()
    by_hand = quantize(torch.tensor([[1.27, -0.631, 0.004]]))[0]
    assert by_hand.tolist() == [[127, -63, 0]]


def test_packing_a_state_keeps_vectors_and_names() -> None:
    state = make_tower().state_dict()
    back = unpack(pack(state))
    assert back.keys() == state.keys()
    for name, value in state.items():
        if value.ndim == 1:
            assert torch.equal(back[name], value)
        else:
            torch.testing.assert_close(back[name], value, atol=float(value.abs().max()) / 250, rtol=0)


def test_the_file_is_int8_and_gives_what_was_exported(path: Path, encoder: BuiltinText) -> None:
    assert load_file(path)["table.weight"].dtype == torch.int8
    numbers = torch.tensor([encoder.tokenizer.encode("a red cell")])
    with torch.no_grad():
        expected = make_tower().eval()(numbers, numbers != 0)
    assert float((encoder.embed(["a red cell"]) * expected).sum()) > 0.99


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = export_tower(tmp_path, make_tower(), PIECES, {})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged"):
        BuiltinText(path)


def test_other_sizes_than_the_json_says_are_refused(tmp_path: Path) -> None:
    path = export_tower(tmp_path, make_tower(), PIECES, {})
    about = read_json(path.with_suffix(".json"))
    about["tower"]["depth"] = 3
    write_json(path.with_suffix(".json"), about)
    with pytest.raises(UserError, match="does not fit"):
        BuiltinText(path)


def test_missing_weights_name_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="builtin/hashed-text"):
        BuiltinText(tmp_path / "text.safetensors")


@pytest.mark.parametrize("text", ["", "   \n\t", "?!"])
def test_a_text_without_words_is_refused(encoder: BuiltinText, text: str) -> None:
    with pytest.raises(UserError, match="at least one word"):
        encoder.embed(["fine", text])


def test_a_text_of_unknown_words_is_refused(encoder: BuiltinText) -> None:
    with pytest.raises(UserError, match="in English"):
        encoder.embed(["fine", "細胞"])


def test_a_single_text_and_other_types_are_refused(encoder: BuiltinText) -> None:
    with pytest.raises(UserError, match="Put it in a list"):
        encoder.embed("granules")
    with pytest.raises(UserError, match="got 7"):
        encoder.embed([7])  # type: ignore[list-item]


def test_sizes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UserError, match="multiple of heads"):
        TextTower(10, width=10, heads=4)


@shipped
def test_the_shipped_tower_fits_and_is_fast() -> None:
    assert stored(WEIGHTS).stat().st_size <= 8_000_000
    encoder = BuiltinText()
    assert encoder.width == 384
    phrases = [f"a cell of kind {index} with {index * 7 % 1000} pink granules" for index in range(1000)]
    start = time.process_time()
    encoder.embed(phrases)
    assert time.process_time() - start < 6


@shipped
@pytest.mark.parametrize(
    ("text", "closer", "farther"),
    [
        ("a puppy", "a young dog", "a truck"),
        ("a cell with pink granules", "pink granules in the cytoplasm", "a round nucleus"),
        ("an automobile", "a car", "a bird"),
        ("a skin lesion with an uneven border", "a mole whose edge is irregular", "a healthy retina"),
        ("bleeding inside the retina", "retinal haemorrhage", "a wooden chair"),
    ],
)
def test_the_shipped_tower_knows_meanings(text: str, closer: str, farther: str) -> None:
    first, second, third = BuiltinText().embed([text, closer, farther])
    assert float(first @ second) > 0.15 + float(first @ third)


@shipped
@pytest.mark.parametrize(
    ("first", "second", "limit"),
    [
        ("a cell with granules", "a cell without granules", 0.95),
        ("a bird with a crest", "a bird without a crest", 0.95),
        ("a white blood cell with visible granules", "a white blood cell with no granules", 0.95),
        ("a red nucleus in blue cytoplasm", "a blue nucleus in red cytoplasm", 0.998),  # its teacher's is 0.994
    ],
)
def test_the_shipped_tower_reads_negations_and_order(first: str, second: str, limit: float) -> None:
    pair = BuiltinText().embed([first, second])
    assert float(pair[0] @ pair[1]) < limit
