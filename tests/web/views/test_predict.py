"""A prediction says what `explain` and the model say, and its numbers add up."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from conceptlens import api
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_text
from conceptlens.explanations.maps.concept_maps import GRADCAM, OWN, concept_maps
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import load_predictions
from conceptlens.runs.saved import load_pipeline
from conceptlens.web.server.problems import Problem
from conceptlens.web.views.predict import byte_maps, signed_byte_maps, truth_edits, wanted_columns
from tests.web.conftest import World, client_of


def decode(maps: dict[str, Any], cells: int) -> np.ndarray[Any, Any]:
    """As the page reads them: (n, L)."""
    numbers = np.frombuffer(base64.b64decode(maps["data"]), dtype=np.uint8).reshape(len(maps["of"]), cells)
    return numbers / 255 * np.array(maps["scale"])[:, None]


def own_pixels(client: Any, world: World) -> torch.Tensor:
    """The first test image as the model sees it."""
    own = OpenedRun.open(world.slots)
    image = own.source.read(int(own.splits["test"][0]))
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1)[None].copy())


def test_it_is_what_training_kept(told: dict[str, Any], world: World) -> None:
    kept = load_predictions(world.slots)
    assert told["image"] == {"split": "test", "row": 0, "id": kept.ids[0]}
    np.testing.assert_allclose([each["logit"] for each in told["classes"]], kept.logits[0], atol=1e-4)
    np.testing.assert_allclose(told["state"]["concept_logits"], kept.concept_logits[0], atol=1e-4)
    assert told["truth"] == [kept.classes[kept.labels[0]]]
    assert [each["label"] for each in told["concepts"]] == [bool(label) for label in kept.concepts[0]]
    assert sum(each["probability"] for each in told["classes"]) == pytest.approx(1)


def test_decompositions_add_up_to_the_logit(told: dict[str, Any]) -> None:
    logits = {each["name"]: each["logit"] for each in told["classes"]}
    assert len(told["decompositions"]) == 4
    for decomposition in told["decompositions"]:
        assert decomposition["base"] + sum(decomposition["values"]) + decomposition["bypass"] == pytest.approx(
            decomposition["total"], abs=1e-9
        )
        minus = decomposition["minus"]
        less = 0 if minus is None else np.mean(list(logits.values())) if minus == "mean" else logits[minus]
        assert decomposition["total"] == pytest.approx(logits[decomposition["of"]] - less, abs=1e-4)


def test_it_says_what_explain_says(told: dict[str, Any], own_world: World) -> None:
    done = api.explain(own_world.slots, n=1, concepts=["all"], maps=["attention", "gradcam", "index"])
    document = done.items[0].load()
    assert document.image == told["image"]["id"]
    assert document.sentence == told["sentence"]
    for wanted, found in zip(document.decompositions, told["decompositions"], strict=True):
        np.testing.assert_allclose(found["values"], wanted.values, atol=1e-4)  # the average is of kept float32 scores
    assert document.index is not None
    assert [code for row in document.index.codes for code in row] == told["index"]["codes"]
    cells = len(told["index"]["codes"])
    attention, gradcam = (decode(told["maps"][kind], cells) for kind in ("attention", "gradcam"))
    for k, maps in enumerate(document.maps):
        for found, known in ((attention[told["concepts"][k]["slot"]], maps.attention), (gradcam[k], maps.gradcam)):
            assert known is not None
            top = max(known.range[1], 1e-12)
            np.testing.assert_allclose(found, np.ravel(known.values), atol=0.51 * top / 255 + 1e-4 * top)


def test_maps_are_those_of_the_model(client: Any, told: dict[str, Any], world: World) -> None:
    pipeline, _, _ = load_pipeline(world.slots)
    pixels = own_pixels(client, world)
    wanted = concept_maps(pipeline.requires_grad_(False), pixels)
    assert tuple(told["maps"]["grid"]) == wanted.grid
    cells = wanted.grid[0] * wanted.grid[1]
    attention = decode(told["maps"]["attention"], cells)[[each["slot"] for each in told["concepts"]]]
    for found, kind in ((attention, OWN), (decode(told["maps"]["gradcam"], cells), GRADCAM)):
        numbers = wanted.maps[kind][0].numpy()
        np.testing.assert_allclose(found, numbers, atol=0.51 * float(numbers.max()) / 255 + 1e-6)
    shares = decode(told["maps"]["assignment"], cells).sum(0)
    np.testing.assert_allclose(shares, 1, atol=0.51 * len(told["maps"]["assignment"]["of"]) / 255)
    output = pipeline(pixels)
    codebook = pipeline.regularizer.codebook
    assert told["index"]["codes"] == output.codes[0].tolist()
    similarity = torch.nn.functional.cosine_similarity(output.patches[0], codebook[output.codes[0]], dim=-1)
    np.testing.assert_allclose(told["index"]["similarity"], similarity.detach(), atol=1e-4)


def test_gradcam_of_some_concepts(client: Any, told: dict[str, Any]) -> None:
    address = "/api/v1/runs/slots/images/test/0/prediction"
    some = client.get(address, params={"gradcam": "3,1"}).json()["maps"]["gradcam"]
    assert some["of"] == [3, 1]
    assert some["scale"] == [told["maps"]["gradcam"]["scale"][k] for k in (3, 1)]
    assert client.get(address, params={"gradcam": "none"}).json()["maps"]["gradcam"] is None
    assert client.get(address, params={"gradcam": "deciding"}).json()["maps"]["gradcam"]["of"] == told["deciding"]
    for nonsense in ("99", "-1", "x", "1,,2"):
        assert client.get(address, params={"gradcam": nonsense}).status_code == 400
    assert wanted_columns("auto", 65) is None
    assert wanted_columns("auto", 3) == [0, 1, 2]
    with pytest.raises(Problem):
        wanted_columns("3", 3)


def test_an_unchanged_prediction_is_not_made_again(client: Any) -> None:
    address = "/api/v1/runs/slots/images/test/1/prediction"
    for _ in range(2):  # the first may lack the names of codes, which come while others are served
        first = client.get(address)
        client.get("/api/v1/runs/slots/codebook")
    again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_methods_without_slots_say_so(client: Any) -> None:
    found = client.get("/api/v1/runs/group--whole/images/test/0/prediction").json()
    assert found["maps"]["attention"] is None
    assert "no attention" in found["maps"]["without"]["attention"]
    assert found["index"] is None
    assert "no codebook" in found["maps"]["without"]["index"]
    assert found["concepts"][0]["slot"] is None
    assert found["maps"]["gradcam"]["of"] == list(range(len(found["concepts"])))


def test_a_black_box_predicts_without_concepts(own_world: World) -> None:
    import conceptlens as cl
    from tests.training.tiny import tiny

    recipe = tiny(
        own_world.root / "box", training__epochs=1, method={"name": "black-box"}, regularizer={"name": "none"}
    )
    cl.train(recipe, quiet=True)
    with client_of(own_world.root) as client:
        found = client.get("/api/v1/runs/box/images/test/0/prediction").json()
        assert found["concepts"] == found["decompositions"] == found["truth_edits"] == []
        assert found["predicted"]
        assert client.get("/api/v1/runs/box/head").json()["error"]["code"] == "missing"
        assert "reads no concepts" in client.get("/api/v1/runs/box/concepts").json()["why"]


def test_an_uploaded_file_is_seen_as_the_stored_one(client: Any, told: dict[str, Any], world: World) -> None:
    pixels = own_pixels(client, world)[0].numpy().transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    found = client.post("/api/v1/runs/slots/prediction", content=buffer.getvalue()).json()
    assert found["image"] == {"split": None, "row": None, "id": "upload"}
    assert found["state"] == told["state"]
    assert found["decompositions"] == told["decompositions"]
    assert found["picture"].startswith("data:image/jpeg;base64,")
    assert found["truth"] is None


def test_without_its_data_a_run_still_predicts_files(own_world: World) -> None:
    recipe = own_world.slots / "recipe.yaml"
    write_text(recipe, recipe.read_text("utf-8").replace("source: shapes", "source: /nowhere/at/all.csv"))
    with client_of(own_world.root) as client:
        error = client.get("/api/v1/runs/slots/images/test/0/prediction").json()["error"]
        assert (error["code"], "cannot be opened" in error["message"]) == ("missing", True)
        listed = client.get("/api/v1/runs/slots/images").json()
        assert listed["total"] > 0
        buffer = io.BytesIO()
        Image.new("RGB", (40, 30), "red").save(buffer, "PNG")
        assert client.post("/api/v1/runs/slots/prediction", content=buffer.getvalue()).status_code == 200


def test_bytes_of_maps_by_hand() -> None:
    maps = byte_maps([4, 9], np.array([[0.0, 0.5, 2.0], [0.0, 0.0, 0.0]]))
    assert (maps.of, maps.scale) == ([4, 9], [2.0, 0.0])
    assert list(base64.b64decode(maps.data)) == [0, 64, 255, 0, 0, 0]


def test_truth_in_words(concepts: ConceptSet) -> None:
    assert truth_edits(concepts, [1, 0, -1, -1, 0]) == ["size=big", "extras: spots=no"]
    assert truth_edits(concepts, [0, 0, 0, 1, 1]) == [
        "size: big=no",
        "size: small=no",
        "color=blue",
        "extras: spots=yes",
    ]
    assert truth_edits(concepts, []) == []


def test_images_are_listed_filtered_and_paged(client: Any, world: World) -> None:
    kept = load_predictions(world.slots)
    address = "/api/v1/runs/slots/images"
    everything = client.get(address, params={"size": 200}).json()
    assert [item["id"] for item in everything["items"]] == list(kept.ids)
    said = kept.logits.argmax(1)
    assert [item["right"] for item in everything["items"]] == [bool(hit) for hit in said == kept.labels]
    wrong = client.get(address, params={"show": "wrong", "size": 200}).json()["items"]
    assert {item["row"] for item in wrong} == set(np.flatnonzero(said != kept.labels).tolist())
    margins = [item["margin"] for item in client.get(address, params={"show": "uncertain"}).json()["items"]]
    assert margins == sorted(margins)
    name = kept.classes[kept.labels[0]]
    of_class = client.get(address, params={"class": name, "size": 200}).json()
    assert {item["row"] for item in of_class["items"]} == set(np.flatnonzero(kept.labels == kept.labels[0]).tolist())
    pages = [client.get(address, params={"page": page, "size": 5}).json() for page in range(2)]
    assert [item["row"] for page in pages for item in page["items"]] == list(range(10))
    assert pages[0]["total"] == len(kept.ids)
    assert client.get(address, params={"class": "nobody"}).status_code == 400
    (named,) = client.get(address, params={"name": kept.ids[3]}).json()["items"]
    assert (named["row"], named["id"]) == (3, kept.ids[3])
    assert client.get(address, params={"name": "nobody.png"}).json()["items"] == []
    train = client.get(address, params={"split": "train"}).json()
    assert (train["stored"], train["items"][0]["predicted"]) == (False, None)
    assert client.get(address, params={"split": "train", "show": "wrong"}).status_code == 409


def test_pictures(client: Any) -> None:
    for kind, side in (("thumbnail", 160), ("picture", 384)):
        answer = client.get(f"/api/v1/runs/slots/images/test/0/{kind}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(answer.content)).size == (side, side)
        again = client.get(
            f"/api/v1/runs/slots/images/test/0/{kind}", headers={"If-None-Match": answer.headers["etag"]}
        )
        assert again.status_code == 304
    assert client.get("/api/v1/runs/slots/images/test/99999/picture").status_code == 404


def test_concepts_and_codebook(client: Any, world: World) -> None:
    found = client.get("/api/v1/runs/slots/concepts").json()
    kept = load_predictions(world.slots)
    assert len(found["concepts"]) == kept.concept_logits.shape[1]
    assert (found["why"], found["map"]["of"]) == (None, "texts")
    assert sum(found["map"]["explained"]) <= 1 + 1e-9
    first = found["concepts"][0]
    assert first["positive"] == pytest.approx((kept.concepts[:, 0] == 1).mean())
    assert len(first["place"]) == 3
    assert len(first["patches"]) == min(12, found["images"])
    told = client.get(f"/api/v1/runs/slots/images/test/{first['patches'][0]['row']}/prediction").json()
    attention = decode(told["maps"]["attention"], len(told["index"]["codes"]))[first["slot"]]
    assert attention.argmax() == first["patches"][0]["cell"]
    book = client.get("/api/v1/runs/slots/codebook").json()
    assert sum(code["count"] for code in book["codes"]) == book["patches"]
    assert sum(code["use"] for code in book["codes"]) == pytest.approx(1)
    used = next(code for code in book["codes"] if code["count"])
    assert sum(used["by_class"]) == pytest.approx(1)
    patch = used["patches"][0]
    seen = client.get(f"/api/v1/runs/slots/images/{patch['split']}/{patch['row']}/prediction").json()
    assert seen["index"]["codes"][patch["cell"]] == used["code"]
    assert seen["index"]["similarity"][patch["cell"]] == pytest.approx(patch["value"], abs=1e-3)
    error = client.get("/api/v1/runs/group--whole/codebook").json()["error"]
    assert (error["code"], "no codebook" in error["message"]) == ("missing", True)
    assert client.get("/api/v1/runs/group--whole/concepts").json()["map"]["of"] == "class weights"


def test_a_value_that_is_likeliest_is_predicted_however_unsure(client: Any, world: World) -> None:
    logits, concepts = load_predictions(world.slots).concept_logits, OpenedRun.open(world.slots).concepts
    for row in client.get("/api/v1/runs/slots/concepts").json()["concepts"]:
        flags, group = [flag["name"] for flag in row["flags"]], concepts.group(row["group"])
        if row["kind"] == "exclusive":
            said = (logits[:, group.concepts].argmax(1) == group.values.index(row["value"])).mean()
            assert ("never predicted" in flags) == (said < 0.01 <= row["positive"])
            assert ("always predicted" in flags) == (said > 0.99 >= row["positive"])


def test_names_of_codes_are_kept_in_the_run(own_world: World) -> None:
    with client_of(own_world.root) as client:
        client.get("/api/v1/runs/slots/codebook")
    assert Path(own_world.slots / "explain" / "reference.json").exists()


def test_concepts_and_codebook_are_told_at_once_and_complete_once_images_were_looked_at(own_world: World) -> None:
    with client_of(own_world.root) as client:
        book = "/api/v1/runs/slots/codebook"
        early = client.get(f"{book}?look=false").json()
        assert (early["complete"], early["grid"], early["perplexity"]) == (False, None, None)
        assert {(each["use"], each["count"], each["by_class"], len(each["patches"])) for each in early["codes"]} == {
            (None, None, None, 0)
        }
        first = client.get("/api/v1/runs/slots/concepts?look=false").json()
        assert not first["complete"]
        assert not any(each["patches"] for each in first["concepts"])
        whole = client.get("/api/v1/runs/slots/concepts").json()
        assert whole["complete"]
        assert whole["grid"]
        assert all(each["patches"] for each in whole["concepts"])
        assert [each["place"] for each in whole["concepts"]] == [each["place"] for each in first["concepts"]]
        assert client.get("/api/v1/runs/slots/concepts?look=false").json() == whole
        later = client.get(f"{book}?look=false").json()
        assert later["complete"]
        assert later == client.get(book).json()
        assert sum(each["count"] for each in later["codes"]) == later["patches"] > 0


def test_bytes_of_evidence_have_a_sign() -> None:
    values = np.array([[-0.5, 0.0, 0.25], [0.0, 0.0, 0.0]])
    packed = signed_byte_maps([3, 5], values).model_dump()
    found = np.frombuffer(base64.b64decode(packed["data"]), dtype=np.uint8).reshape(2, 3)
    assert packed["of"] == [3, 5]
    assert packed["scale"] == [0.5, 0.0]
    np.testing.assert_allclose((found - 128.0) / 127 * np.array([[0.5], [0.0]]), values, atol=0.5 / 127)


def test_evidence_adds_up_to_the_scores(evidence_run: Path) -> None:
    told = client_of(evidence_run).get(f"/api/v1/runs/{evidence_run.name}/images/test/0/prediction").json()
    maps, concepts = told["maps"], told["concepts"]
    cells = maps["grid"][0] * maps["grid"][1]
    assert [each["name"] for each in concepts if each["placeless"]] == ["body pattern: plain"]
    assert (
        maps["evidence"]["of"] == maps["gradcam"]["of"] == [each["index"] for each in concepts if not each["placeless"]]
    )
    found = np.frombuffer(base64.b64decode(maps["evidence"]["data"]), dtype=np.uint8).reshape(-1, cells)
    scale = np.array(maps["evidence"]["scale"])
    sums = ((found - 128.0) / 127 * scale[:, None]).sum(1)
    for k, total, most in zip(maps["evidence"]["of"], sums, scale, strict=True):
        exact = concepts[k]["score"] - maps["unplaced"][k]
        assert total == pytest.approx(exact, abs=cells * most / 254 + 1e-6)
