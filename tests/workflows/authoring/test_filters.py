"""Each filter on phrases it must catch and phrases it must leave alone."""

import time

import pytest
import torch

from conceptlens.concepts import ConceptSet, library
from conceptlens.core.errors import UserError
from conceptlens.encoders import make_text_encoder
from conceptlens.encoders.contract import TextEncoder
from conceptlens.workflows.authoring.candidates import Candidate, Gathered, from_concepts
from conceptlens.workflows.authoring.check import check_concepts
from conceptlens.workflows.authoring.filters.class_names import Names, means_a_class
from conceptlens.workflows.authoring.filters.filters import Judge, Rules
from conceptlens.workflows.authoring.filters.length import too_long
from conceptlens.workflows.authoring.filters.separability import indistinct, tells_nothing_apart
from conceptlens.workflows.authoring.filters.visible import not_visible, says_nothing
from conceptlens.workflows.authoring.language_model.replies import Opinion
from conceptlens.workflows.authoring.language_model.second_opinion import objections


@pytest.fixture(scope="module")
def text() -> TextEncoder:
    return make_text_encoder("builtin/text")


def of(text: str, *classes: str, group: str = "a", value: str = "v", without: tuple[str, ...] = ()) -> Candidate:
    return Candidate(group, value, text, None, frozenset(classes), frozenset(without))


def test_class_names_in_words() -> None:
    names = Names(
        ["Neutrophil", "Song Sparrow", "basal cell carcinoma", "Grade 2", "normal", "7", "melanocytic nevus"],
        "blood cells",
    )
    for held, name in (
        ("a cell like a neutrophil", "Neutrophil"),
        ("neutrophilic granules", "Neutrophil"),
        ("the streaks of sparrows", "Song Sparrow"),
        ("typical of carcinoma", "basal cell carcinoma"),
        ("a lesion of grade 2", "Grade 2"),
        ("a melanocytic pattern", "melanocytic nevus"),
    ):
        found = names.inside(held)
        assert found is not None, held
        assert found[0] == name
    for free in (
        "a large cell",
        "two lobes",
        "a grade of blue",
        "layered normal tissue",
        "7 spots",
        "a songbird's bill",
    ):
        assert names.inside(free) is None, free


def test_class_names_by_vector() -> None:
    classes = torch.eye(2)
    vectors = torch.tensor([[0.9, 0.4359], [0.6, 0.8], [0.0, -1.0]])
    found = means_a_class(vectors, classes, ["a", "b"], 0.75)
    assert found == {
        0: "its text means nearly the same as the class 'a' (cosine 0.90, cut-off 0.75)",
        1: "its text means nearly the same as the class 'b' (cosine 0.80, cut-off 0.75)",
    }


HIDDEN = [
    "a rough texture",
    "skin that is rough to the touch",
    "a painful swelling",
    "sings from a high perch",
    "grows rapidly over weeks",
    "feeds on insects",
    "releases histamine",
    "caused by sun exposure",
    "most common in the elderly",
    "a history of bleeding",
]
SEEN = [
    "a nucleus with rough, jagged edges",
    "hard exudates near the macula",
    "soft exudates with fluffy edges",
    "a bird perched on a branch",
    "blue-gray nests of pigment",
    "a long bill",
    "growth of new vessels on the disc",
    "red blood inside the lesion",
    "a singed brown colour",
]


def test_what_an_image_cannot_show() -> None:
    assert sorted(not_visible([of(each) for each in HIDDEN])) == list(range(len(HIDDEN)))
    assert not_visible([of(each) for each in SEEN]) == {}
    assert "'rough texture' is about how it feels" in not_visible([of(HIDDEN[0])])[0]


def test_what_says_nothing() -> None:
    empty = ["a typical appearance", "distinctive features", "looks abnormal", "colour varies"]
    assert sorted(says_nothing([of(each) for each in empty])) == [0, 1, 2, 3]
    assert says_nothing([of("a normal pattern of small vessels"), of("a pattern of dots")]) == {}


def test_too_long() -> None:
    found = too_long([of("one two three four"), of("one two three"), of("x", value="n" * 46)], 3, 45)
    assert found == {0: "its text has 4 words, more than 3", 2: "its name has 46 characters, more than 45"}
    assert too_long([of("one two three four")], 0, 0) == {}


def test_told_apart_by_no_class() -> None:
    every = of("x", "A", "B")
    nobody = of("y", without=("A", "B"))
    found = tells_nothing_apart([every, nobody, of("z", "A"), of("unknown")], ["A", "B"])
    assert list(found) == [0, 1]
    assert tells_nothing_apart([of("unknown")], []) == {}
    assert indistinct([every, of("z", "A", "C")], ["A", "B", "C"]) == []
    assert indistinct([of("z", "A", "C")], ["A", "B", "C"]) == [("A", "C")]


def test_a_second_model_takes_classes_or_the_concept() -> None:
    first, second, third = of("x", "A", "B", group="1"), of("y", "A", group="2"), of("z", "A", "B", "C", group="3")
    good, denied = Opinion(1, True, True, False, ""), Opinion(1, True, False, False, "no")
    unseen = Opinion(1, False, True, False, "felt")
    left, removed, notes = objections(
        [first, second, third],
        {
            "A": [(first.name, good), (second.name, denied), (third.name, unseen)],
            "B": [(first.name, denied), (third.name, unseen)],
            "C": [(third.name, good)],
        },
    )
    assert left[0].classes == {"A"}
    assert left[0].without == {"B"}
    assert removed == {
        1: "it holds for none of the classes said to show it (no)",
        2: "it cannot be seen in a still image (felt)",
    }
    assert notes == ["1: v: no longer said of B (no)"]


SAME = [
    ("a nucleus divided into two lobes", "a two-lobed nucleus"),
    ("deep blue cytoplasm", "cytoplasm stained dark blue"),
    ("a long curved beak", "a beak that is long and curved"),
    ("pink granules", "granules coloured pink"),
    ("large round nucleus", "big round nucleus"),
    ("a bright red crown", "a vivid red crown"),
    ("cytoplasm full of granules", "cytoplasm packed with granules"),
    ("a pale ring around the eye", "a pale circle around the eye"),
    ("visible granules in the cytoplasm", "cytoplasm with visible granules"),
]
OTHER = [
    ("a red crown", "a blue crown"),
    ("a nucleus with two lobes", "a nucleus with three lobes"),
    ("a cell with granules", "a cell without granules"),
    ("a mass darker than the fat around it", "a mass brighter than the fat around it"),
    ("a bill about as long as the head", "a bill longer than the head"),
    ("a breast of several colours", "a breast of one solid colour"),
    ("a brown back", "a back of buff, a pale yellowish brown"),
    ("a sharp border", "a vague border"),
    ("yellow legs", "a yellow head"),
    ("wings with white bars", "a tail with white bars"),
    ("both shadow and brightening behind it", "neither shadow nor brightening behind it"),
    ("a forked tail", "a notched tail"),
]


@pytest.mark.parametrize("pair", SAME)
def test_two_ways_to_say_the_same(text: TextEncoder, pair: tuple[str, str]) -> None:
    judged = Judge([], text, Rules()).of([of(pair[0], group="1"), of(pair[1], group="2")])
    assert [each.code for each in judged.removed] == ["repeats another"]


@pytest.mark.parametrize("pair", OTHER)
def test_opposites_are_two_concepts(text: TextEncoder, pair: tuple[str, str]) -> None:
    assert Judge([], text, Rules()).of([of(pair[0], group="1"), of(pair[1], group="2")]).removed == []


def test_two_values_of_one_axis_need_the_same_words(text: TextEncoder) -> None:
    medium, large = (
        of("a cell twice as wide as a red one"),
        of("a large cell, three times as wide as a red one", value="w"),
    )
    full, packed = of("cytoplasm full of granules"), of("cytoplasm packed with granules", value="w")
    for pair in ([medium, large], [full, packed]):
        assert Judge([], text, Rules()).of(pair).removed == []
    again = [of("sharp, branching red vessels"), of("red vessels, sharp and branching", value="w")]
    assert len(Judge([], text, Rules()).of(again).removed) == 1


def test_a_repetition_hands_its_classes_over(text: TextEncoder) -> None:
    one = of("a long curved beak", "A", group="1", without=("B",))
    two = of("a beak that is long and curved", "B", "C", group="2", without=("A",))
    judged = Judge(["A", "B", "C", "D"], text, Rules()).of([one, two])
    (left,) = judged.kept
    assert left.name == "2: v"  # more classes show it
    assert left.classes == {"A", "B", "C"}
    assert left.without == frozenset()
    assert judged.removed[0].merged_into == "2: v"


def test_all_classes_after_merging_tell_nothing_apart(text: TextEncoder) -> None:
    one, two = of("a long curved beak", "A", group="1"), of("a beak that is long and curved", "B", group="2")
    judged = Judge(["A", "B"], text, Rules()).of([one, two])
    assert judged.kept == []
    assert {each.code for each in judged.removed} == {"repeats another", "tells no classes apart"}


def test_the_user_overrules_a_filter(text: TextEncoder) -> None:
    rough = of("a rough texture", group="surface", value="rough")
    judged = Judge([], text, Rules(keep=["surface: rough"])).of([rough])
    assert judged.kept == [rough]
    assert judged.removed[0].overruled
    with pytest.raises(UserError, match="Did you mean 'surface'"):
        Judge([], text, Rules(keep=["surfac"])).of([rough])


@pytest.mark.parametrize("name", [name for name in library() if name != "cub-312"])
def test_our_own_concept_sets_pass(name: str) -> None:
    assert check_concepts(name).ok


def test_the_table_by_class_is_read() -> None:
    found = {each.name: each for each in from_concepts(ConceptSet.load("breast-ultrasound"))}
    assert found["lesion: no"].classes == {"normal"}
    assert found["lesion: no"].without == {"benign", "malignant"}


def test_one_name_in_two_spellings_is_one_concept() -> None:
    gathered = Gathered(("A", "B"))
    gathered.add("A", "Beak shape", "curved", "a curved beak", None)
    gathered.add("B", "beak-shape", "Curved", "a beak with a curve", "beak")
    gathered.add("B", "beak shape", "straight", "a straight beak", None)
    first, second = gathered.candidates()
    assert (first.group, first.classes, first.without) == ("Beak shape", {"A", "B"}, frozenset())
    assert (second.classes, second.without) == ({"B"}, {"A"})


@pytest.mark.timeout(60)
def test_two_thousand_concepts_are_filtered_quickly(text: TextEncoder) -> None:
    colors = ["red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "gray", "olive"]
    parts = [
        "crown",
        "nape",
        "throat",
        "breast",
        "belly",
        "back",
        "wing",
        "tail",
        "rump",
        "flank",
        "leg",
        "bill",
        "eye",
        "cheek",
    ]
    shapes = ["spots", "stripes", "bars", "patches", "rings", "streaks", "scales", "bands", "dots", "edges"]
    made = [f"{color} {shape} on the {part}" for color in colors for part in parts for shape in shapes]
    candidates = [of(each, f"class {n % 200}", group=each, value=each) for n, each in enumerate((made * 2)[:2000])]
    started = time.perf_counter()
    judged = Judge([f"species {n}" for n in range(200)], text, Rules()).of(candidates)
    spent = time.perf_counter() - started
    assert spent < 30
    assert {each.code for each in judged.removed} == {"repeats another"}
    assert len(judged.kept) <= len(made)
