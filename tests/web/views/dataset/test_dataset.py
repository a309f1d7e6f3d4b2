"""All images of a split: columns that the page reads, places, neighbors, likely label errors, corrected classes."""

import csv
import json
import time
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from conceptlens.concepts import ConceptSet
from conceptlens.web.views.corrections import as_label
from conceptlens.web.views.dataset.places import map_places, neighbors
from conceptlens.web.views.dataset.suspects import Labeling, disagreements, duplicates, suspects
from conceptlens.web.views.dataset.table import ImageTable
from tests.web.conftest import World, client_of

AT = "/api/v1/runs/slots/dataset/test"


def words(content: bytes) -> dict[str, Any]:
    """The names in a safetensors header."""
    length = int.from_bytes(content[:8], "little")
    known: dict[str, Any] = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["table"])
    return known


def test_columns_agree_with_the_list_of_images(client: Any) -> None:
    content = client.get(AT).content
    arrays, names = load(content), words(content)
    listed = client.get("/api/v1/runs/slots/images?split=test&size=200").json()["items"]
    assert names["ids"] == [item["id"] for item in listed]
    assert [[names["classes"][label]] for label in arrays["label"]] == [item["truth"] for item in listed]
    assert [[names["classes"][guess]] for guess in arrays["guess"]] == [item["predicted"] for item in listed]
    assert arrays["confidence"] == pytest.approx([item["probability"] for item in listed], abs=1e-6)
    assert [bool(right) for right in arrays["right"]] == [item["right"] for item in listed]
    assert arrays["concept_probs"].shape == arrays["concept_labels"].shape == (len(listed), len(names["concepts"]))
    assert not names["tokens"]
    assert client.get(AT, headers={"If-None-Match": client.get(AT).headers["etag"]}).status_code == 304


def test_a_pass_adds_tokens_and_scores_and_is_kept(own_world: World) -> None:
    with client_of(own_world.root) as client:
        refused = client.get(f"{AT}/places?by=tokens")
        assert refused.status_code == 409
        assert "Let the model read them" in refused.json()["error"]["message"]
        state = client.post(f"{AT}/pass").json()
        until = time.monotonic() + 30
        while state["state"] == "running" and time.monotonic() < until:
            time.sleep(0.05)
            state = client.get(f"{AT}/pass").json()
        assert (state["state"], state["done"]) == ("done", state["total"])
        content = client.get(AT).content
        assert words(content)["tokens"]
        places = np.frombuffer(client.get(f"{AT}/places?by=tokens").content, "<f4").reshape(-1, 2)
        assert len(places) == len(words(content)["ids"])
        near = client.get(f"{AT}/neighbors/2?by=tokens&most=5").json()
        assert len(near["rows"]) == 5
        assert 2 not in near["rows"]
        assert near["similarity"] == sorted(near["similarity"], reverse=True)
    with client_of(own_world.root) as again:  # another server finds it
        assert again.get(f"{AT}/pass").json()["state"] == "done"


def test_sprites_are_a_jpeg_and_end_where_images_do(client: Any) -> None:
    assert client.get(f"{AT}/sprites/0").content[:2] == b"\xff\xd8"
    assert client.get(f"{AT}/sprites/9").status_code == 404
    assert client.get(f"{AT}/neighbors/100000").status_code == 404


def test_places_are_principal_components() -> None:
    rows = np.array([[0, 0, 0], [4, 0, 0], [0, 1, 0], [4, 1, 0]], np.float32)
    places = map_places(rows, "pca")
    assert np.abs(places[:, 0]) == pytest.approx([2, 2, 2, 2])
    assert np.abs(places[:, 1]) == pytest.approx([0.5, 0.5, 0.5, 0.5])


def test_neighbors_point_the_same_way() -> None:
    rows = np.array([[1, 0], [2, 0.1], [-1, 0], [-2, -0.1]], np.float32)  # centered already
    nearest, cosines = neighbors(rows, 0, 2)
    assert nearest[0] == 1
    assert cosines[0] == pytest.approx(2 / np.hypot(2, 0.1))


def test_a_disagreement_must_be_as_sure_as_the_class_usually_is() -> None:
    probs = np.array([[0.9, 0.1], [0.7, 0.3], [0.85, 0.15], [0.2, 0.8]])
    labels = np.array([0, 1, 1, 1])
    # Of images labeled 0 the mean probability of 0 is 0.9: neither 0.7 nor 0.85 reaches it.
    assert disagreements(Labeling("class", ["a", "b"], labels, probs)) == []
    labels = np.array([0, 0, 1, 1])  # now it is 0.8, and the third image is beyond it
    (found,) = disagreements(Labeling("class", ["a", "b"], labels, probs))
    assert (found.row, found.label, found.instead, found.score) == (2, "b", "a", pytest.approx(0.7))


def test_near_duplicates_with_other_labels_are_named_once() -> None:
    vectors = np.array([[1, 0], [1, 0.01], [-1, 0], [-1, 0.5]], np.float32)

    def found(*labels: list[int]) -> list[tuple[int, str, str, str, int | None]]:
        asked = [Labeling(f"question {place}", ["a", "b"], np.array(each), None) for place, each in enumerate(labels)]
        pairs = duplicates(vectors, asked, most=10)
        assert {pair.why for pair in pairs} <= {"duplicate"}
        return [(pair.row, pair.of, pair.label, pair.instead, pair.other) for pair in pairs]

    assert found([0, 1, 0, 1]) == [(0, "question 0", "a", "b", 1)]
    assert found([0, -1, 0, 1]) == []
    assert found([0, 0, 0, 1], [1, 0, 0, 1]) == [(0, "question 1", "b", "a", 1)]


def test_a_split_of_one_image_again_and_again_names_no_more_pairs_than_are_listed() -> None:
    same = np.ones((2050, 2), np.float32)
    same[-1] = -1  # centered, the others would be nothing
    labels = np.arange(2050) % 2
    assert len(duplicates(same, [Labeling("class", ["a", "b"], labels, None)], most=10)) == 10


def test_suspects_of_concepts_are_those_of_exclusive_groups() -> None:
    concepts = ConceptSet.from_yaml("classes: [a]\ngroups:\n  shape: {prompt: '{value}', values: [round, square]}\n")
    probs = np.array([[0.95, 0.05], [0.9, 0.1], [0.1, 0.9]])
    labels = np.array([[0, 1], [1, 0], [0, 1]], np.int8)
    table = ImageTable(("x", "y", "z"), np.array([0, 0, 0]), labels, None, probs, None, {})
    (found,) = suspects(table, ["a"], concepts, 10)
    assert (found.row, found.of, found.label, found.instead) == (0, "shape", "square", "round")


def test_suspects_of_independent_concepts_are_answered_by_yes_or_no() -> None:
    concepts = ConceptSet.from_yaml(
        "classes: [a]\ngroups:\n  seen: {kind: independent, prompt: '{value}', values: [eye, wing]}\n"
    )
    probs = np.array([[0.95, 0.5], [0.9, 0.5], [0.1, 0.5]])
    labels = np.array([[0, -1], [1, -1], [0, -1]], np.int8)
    table = ImageTable(("x", "y", "z"), np.array([0, 0, 0]), labels, None, probs, None, {})
    (found,) = suspects(table, ["a"], concepts, 10)
    assert (found.row, found.of, found.label, found.instead) == (0, "seen: eye", "no", "yes")
    assert as_label(concepts, f"{found.of}={found.instead}") == ("seen: eye", "yes")


def test_a_class_is_corrected_and_trained_on(own_world: World) -> None:
    from conceptlens.runs.opened import OpenedRun

    with client_of(own_world.root) as client:
        names = words(client.get(AT).content)
        label = int(load(client.get(AT).content)["label"][1])
        other = names["classes"][(label + 1) % len(names["classes"])]
        body = {"rater": "Ann", "image": {"split": "test", "row": 1}, "edits": [f"class={other}"]}
        answer = client.post("/api/v1/runs/slots/corrections", json=body).json()
        assert answer["added"] == 1
        wrong = {**body, "edits": ["class=nothing"]}
        assert client.post("/api/v1/runs/slots/corrections", json=wrong).status_code == 400
    path = own_world.slots / "corrections.csv"
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["concept"], row["before"], row["after"]) == ("class", names["classes"][label], other)
    opened = OpenedRun.open(own_world.slots)
    before, config = opened.source.examples.labels, opened.recipe.data
    config.corrections = str(path)
    corrected = opened.open_data(config)
    place = corrected.examples.ids.index(row["image"])
    assert corrected.classes[corrected.examples.labels[place]] == other
    assert (corrected.examples.labels != before).sum() == 1
