"""What-if on the page is what-if in the library, to the last digit; corrections become labels of a training."""

import csv
import shutil
import threading
from typing import Any

import numpy as np
import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.data.labels.corrections import read_corrections
from conceptlens.data.sources.open import open_source
from conceptlens.evaluation.interventions.ask_next import ask_next
from conceptlens.evaluation.interventions.edits import to_truth
from conceptlens.evaluation.interventions.flip import flips
from conceptlens.evaluation.interventions.units import make_units, without_meaning
from conceptlens.evaluation.interventions.value_map import fit_map
from conceptlens.evaluation.interventions.what_if import one_of
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun
from conceptlens.web.server.problems import Problem
from conceptlens.web.views.corrections import as_label
from tests.training.tiny import tiny
from tests.web.conftest import World, client_of

RUN = "/api/v1/runs/slots"


def post(client: Any, what: str, body: Any, run: str = RUN) -> dict[str, Any]:
    answer = client.post(f"{run}/{what}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def kept_state(world: World, row: int = 0) -> dict[str, list[float]]:
    """The state of an image as training kept it."""
    readout = OpenedRun.open(world.slots).readout()
    parts = ("bottleneck", "concept_logits", "rest")
    return {name: getattr(readout, name)[row].tolist() for name in parts}


def edits_of(world: World) -> list[str]:
    concepts = ConceptSet.load(world.slots / "concepts.yaml")
    group = concepts.groups[0]
    last = concepts.names[-1]
    return [
        f"{group.name}={group.values[-1]}",
        f"{last}=0.3",
        f"{concepts.names[0]}=score 2.5",
        f"{group.name}=mean of {OpenedRun.open(world.slots).readout().classes[1]}",
        f"{last}=yes",
    ]


@pytest.mark.parametrize("count", range(6))
def test_it_is_what_the_library_says(client: Any, world: World, count: int) -> None:
    edits = edits_of(world)[:count]
    readout = OpenedRun.open(world.slots).readout()
    wanted = api.what_if(world.slots, readout.ids[0], set=edits)
    found = post(client, "intervene", {"state": kept_state(world), "edits": edits})
    for side, known in ((found["before"], wanted.before), (found["after"], wanted.after)):
        assert side["said"] == [known.said]
        assert {each["name"]: each["probability"] for each in side["classes"]} == known.probabilities
    assert (found["changed"] == []) == (count == 0)
    for decomposition in found["decompositions"]:
        assert decomposition["base"] + sum(decomposition["values"]) + decomposition["bypass"] == pytest.approx(
            decomposition["total"], abs=1e-9
        )
    (decomposition,) = found["decompositions"]
    logits = {each["name"]: each["logit"] for each in found["after"]["classes"]}
    assert decomposition["of"] == found["after"]["said"][0]
    assert decomposition["total"] == pytest.approx(logits[decomposition["of"]], abs=1e-4)


def test_truth_edits_correct_by_truth(client: Any, told: dict[str, Any], world: World) -> None:
    found = post(client, "intervene", {"state": kept_state(world), "edits": told["truth_edits"]})
    readout = OpenedRun.open(world.slots).readout()
    wanted = to_truth(readout, fit_map(readout, np.arange(len(readout))))[0]
    np.testing.assert_allclose(found["bottleneck"], wanted, atol=1e-12)


def test_the_head_says_the_same_without_a_server(client: Any, told: dict[str, Any], world: World) -> None:
    head = client.get(f"{RUN}/head").json()
    found = post(client, "intervene", {"state": told["state"], "edits": edits_of(world)})
    logits = np.array(head["weight"]) @ found["bottleneck"] + np.array(head["bias"]) + told["state"]["rest"]
    np.testing.assert_allclose([each["logit"] for each in found["after"]["classes"]], logits, atol=1e-4)
    concepts = ConceptSet.load(world.slots / "concepts.yaml")
    k, p = 1, 0.3
    assert head["space"] == "log-probability"
    wanted = np.log(p + head["epsilon"])  # of a value of an exclusive group
    one = post(client, "intervene", {"state": told["state"], "edits": [f"{concepts.names[k]}={p}"]})
    assert one["bottleneck"][k] == pytest.approx(wanted)


def test_ask_and_flip_are_the_librarys(client: Any, world: World) -> None:
    readout = OpenedRun.open(world.slots).readout()
    maps, one = fit_map(readout, np.arange(len(readout))), one_of(readout, readout.ids[0])
    assert one is not None
    state = kept_state(world)
    idle = without_meaning(readout.concepts, one.concept_logits[0], [])
    units = [unit for unit in make_units(readout.concepts) if unit.name not in idle]
    wanted = ask_next(one, maps, units, [0], most=len(units))[0]
    found = post(client, "ask", {"state": state, "most": 100})
    assert [each["unit"] for each in found["ask"]] == [each.unit for each in wanted.ask]
    assert [each["expected_gain"] for each in found["ask"]] == [each.expected_gain for each in wanted.ask]
    answer = found["ask"][0]["answers"][0]["edit"]
    later = post(client, "ask", {"state": state, "edits": [answer], "most": 100})
    assert found["ask"][0]["unit"] not in [each["unit"] for each in later["ask"]]
    answered = [each["answers"][-1]["edit"] for each in found["ask"]]
    assert post(client, "ask", {"state": state, "edits": answered})["ask"] == []
    # Of what is not there no color is asked; of what a person sees, one is.
    colors = [
        "wing colour"
        in [each["unit"] for each in post(client, "ask", {"state": state, "edits": [edit], "most": 100})["ask"]]
        for edit in ("wing: present=no", "wing: present=yes")
    ]
    assert colors == [False, True]
    known = flips(one, maps).examples[0]
    flipped = post(client, "flip", {"state": state})
    assert (flipped["before"], flipped["after"]) == (known.before, known.after)
    if known.edits is not None:
        assert flipped["groups"] == [edit.group for edit in known.edits]
        after = post(client, "intervene", {"state": state, "edits": flipped["edits"]})
        assert after["after"]["said"] == [flipped["after"]]


@pytest.mark.parametrize("edits", [["nothing"], ["no such=1"], ["x=score inf"], ["shape"], ["=yes"]])
def test_edits_that_mean_nothing_are_refused(client: Any, told: dict[str, Any], edits: list[str]) -> None:
    answer = client.post(f"{RUN}/intervene", json={"state": told["state"], "edits": edits})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-request")


def test_scores_that_overflow_are_refused(client: Any, told: dict[str, Any]) -> None:
    name = told["concepts"][0]["name"]
    for word in ("score inf", "score nan", "score 1e300", "2", "-0.1", "nan"):
        answer = client.post(f"{RUN}/intervene", json={"state": told["state"], "edits": [f"{name}={word}"]})
        assert answer.status_code == 400, word
    for numbers in ([], [1.0], [1e300] * len(told["concepts"])):
        state = {**told["state"], "bottleneck": numbers}
        assert client.post(f"{RUN}/flip", json={"state": state}).status_code == 400
    raw = '{"state": {"bottleneck": [NaN], "concept_logits": [1], "rest": [1]}, "edits": []}'
    answer = client.post(f"{RUN}/intervene", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == 422


def test_a_correction_is_a_label(concepts: ConceptSet) -> None:
    assert as_label(concepts, "size=big") == ("size", "big")
    assert as_label(concepts, "size: big=no") == ("size", "small")
    assert as_label(concepts, "extras=spots") == ("extras: spots", "yes")
    assert as_label(concepts, "extras: spots=no") == ("extras: spots", "no")
    for nonsense in ("size=0.3", "size: big=0.3", "size: big=score 2", "size", "hue=red", "size=mean of left"):
        with pytest.raises(Problem):
            as_label(concepts, nonsense)
    three = ConceptSet.from_yaml("classes: [a, b]\ngroups: {hue: {values: [red, green, blue]}}")
    with pytest.raises(Problem, match="green, blue"):
        as_label(three, "hue: red=no")


def test_corrections_that_change_nothing_write_nothing(own_world: World) -> None:
    readout = OpenedRun.open(own_world.slots).readout()
    shares = concept_probabilities_of(readout.concept_logits, readout.concepts)
    said_all = np.stack([readout.concepts.held(row) for row in shares])
    for group in readout.concepts.groups:  # one that the model reads rightly at times
        said, label = (each[:, group.concepts].argmax(1) for each in (said_all, readout.truth))
        known = (readout.truth[:, group.concepts] == 1).sum(1) == 1
        rights, wrongs = np.flatnonzero(known & (said == label)), np.flatnonzero(known & (said != label))
        if group.kind == "exclusive" and len(rights) and len(wrongs):
            break
    right, wrong = int(rights[0]), int(wrongs[0])
    file = own_world.slots / "corrections.csv"

    def body(row: int, place: int, rater: str = "Ada") -> dict[str, Any]:
        edits = [f"{group.name}={group.values[place]}"]
        return {"rater": rater, "image": {"split": "test", "row": row}, "edits": edits}

    with client_of(own_world.root) as client:
        same = post(client, "corrections", body(right, said[right]))
        assert (same["added"], same["rows"], same["total"]) == (0, [], 0)
        assert same["note"].startswith("nothing changed")
        assert not file.exists()
        # The label on file says something else: to side with the model is a correction of the label.
        assert post(client, "corrections", body(wrong, said[wrong]))["added"] == 1
        other = post(client, "corrections", body(right, said[right] - 1))
        assert (other["added"], other["note"]) == (1, "")
        before = file.read_bytes()
        again = post(client, "corrections", body(right, said[right] - 1))
        assert (again["added"], again["total"]) == (0, 2)
        assert file.read_bytes() == before
        assert post(client, "corrections", body(right, said[right] - 1, "Bo"))["added"] == 1  # a second opinion
        assert post(client, "corrections", body(right, said[right]))["added"] == 1  # taken back
        mixed = body(right, said[right])
        mixed["edits"].append("antennae: present=" + ("no" if said_all[right, -1] else "yes"))
        told = post(client, "corrections", mixed)
        assert (told["added"], told["note"]) == (1, f"{group.name}: already predicted, labeled or saved so")


@pytest.mark.slow
def test_corrections_are_added_and_trained_on(own_world: World) -> None:
    concepts = ConceptSet.load(own_world.slots / "concepts.yaml")
    group = concepts.groups[0]
    with client_of(own_world.root) as client:
        empty = client.get(f"{RUN}/corrections").json()
        assert (empty["total"], client.get(f"{RUN}/corrections.csv").status_code) == (0, 409)
        prediction = client.get(f"{RUN}/images/train/2/prediction").json()
        held = [each["value"] for each in prediction["concepts"] if each["group"] == group.name and each["label"]]
        other = next(value for value in group.values if value not in held)
        body = {"rater": "Dr Zoë O'Neil", "image": {"split": "train", "row": 2}, "edits": [f"{group.name}={other}"]}
        added = post(client, "corrections", body)
        (row,) = added["rows"]
        assert (row["before"], row["after"], row["said"], row["image"]) == (
            held[0],
            other,
            "",
            prediction["image"]["id"],
        )
        tested = client.get(f"{RUN}/images/test/0/prediction").json()["concepts"]
        rest = [each for each in tested if each["group"] == group.name and not each["label"]]
        least = min(rest, key=lambda each: each["probability"])["value"]  # what it does not say itself
        again = {"image": {"split": "test", "row": 0}, "edits": [f"{group.name}={least}"]}
        post(client, "corrections", {**body, **again})
        listed = client.get(f"{RUN}/corrections").json()
        assert [each["image"] for each in listed["rows"]][-1] == row["image"]
        assert listed["rows"][0]["said"] in group.values
        text = client.get(f"{RUN}/corrections.csv").text
        assert [line["rater"] for line in csv.DictReader(text.splitlines())] == ["Dr Zoë O'Neil"] * 2
        for rater in ("=cmd|' /C calc'!A0", "+1", "-x", "@x", "a\nb", " ", "a,b", '"', "x" * 81):
            assert client.post(f"{RUN}/corrections", json={**body, "rater": rater}).status_code in (400, 422)
    file = own_world.slots / "corrections.csv"
    recipe = load_recipe(tiny(own_world.root / "next", data__corrections=str(file)))
    source, _ = open_source(recipe.data, concepts)
    place = source.examples.ids.index(row["image"])
    labels = source.examples.concepts[place, group.concepts]
    assert [group.values[k] for k in np.flatnonzero(labels)] == [other]
    assert recipe.data.corrections_read == 2
    trained = cl.train(tiny(own_world.root / "next", training__epochs=1, data__corrections=str(file)), quiet=True)
    write_text(file, file.read_text("utf-8") + f"2030-01-01T00:00:00Z,later,{row['image']},{group.name},,,{held[0]}\n")
    with client_of(own_world.root) as client:  # the file has grown; the run still knows what it was trained on
        found = client.get("/api/v1/runs/next/images/train/0/prediction")
        assert found.status_code == 200, found.text
    assert trained.info["data"]["hash"] != RunFolder(own_world.slots).info["data"]["hash"]


def test_corrections_of_other_data_are_refused(own_world: World) -> None:
    file = own_world.root / "corrections.csv"
    concepts = ConceptSet.load(own_world.slots / "concepts.yaml")
    name = concepts.groups[0].name
    ids = OpenedRun.open(own_world.slots).readout().ids
    for line, words in (
        (f"nobody.png,{name},{concepts.groups[0].values[0]}", "nobody.png"),
        (f"{ids[0]},{name},purple and green", "purple and green"),
        (f"{ids[0]},no such,yes", "no such"),
    ):
        file.write_text(f"image,concept,after\n{line}\n", "utf-8")
        recipe = load_recipe(tiny(own_world.root / "next", data__corrections=str(file)))
        with pytest.raises(UserError, match=words):
            open_source(recipe.data, concepts)
    file.write_text("image,after\n", "utf-8")
    with pytest.raises(UserError, match="concept"):
        read_corrections(file)
    file.write_text("image,concept,after\na,b,c\n", "utf-8")
    with pytest.raises(UserError, match="3 corrections were read"):
        read_corrections(file, 3)


def test_many_raters_at_once_lose_nothing(own_world: World) -> None:
    concepts = ConceptSet.load(own_world.slots / "concepts.yaml")
    group = concepts.groups[0]
    labels = OpenedRun.open(own_world.slots).readout().truth[:, group.concepts].argmax(1)
    with client_of(own_world.root) as client:
        client.get(f"{RUN}/images/test/0/prediction")

        def rate(number: int) -> None:
            for row in range(5):
                body = {
                    "rater": f"rater {number}",
                    "image": {"split": "test", "row": row},
                    "edits": [f"{group.name}={group.values[labels[row] - 1]}"],  # not as it is labeled
                }
                assert client.post(f"{RUN}/corrections", json=body).status_code == 200

        threads = [threading.Thread(target=rate, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.get(f"{RUN}/corrections").json()["total"] == 20
    assert len(read_corrections(own_world.slots / "corrections.csv")) == 20


def test_a_run_without_kept_predictions_says_so(own_world: World) -> None:
    shutil.rmtree(own_world.slots / "predictions")
    with client_of(own_world.root) as client:
        error = client.get(f"{RUN}/images/test/0/prediction").json()["error"]
        assert "was written and is gone" in error["message"]
        assert "conceptlens rehash" in error["message"]
        cl.rehash(own_world.slots)  # who removed them says so
        found = client.get(f"{RUN}/images/test/0/prediction").json()
        assert found["reference"]["what"] == "average image"
        error = client.post(f"{RUN}/intervene", json={"state": found["state"], "edits": []}).json()["error"]
        assert (error["code"], "keeps no predictions" in error["message"]) == ("missing", True)
        assert client.get(f"{RUN}/images").json()["stored"] is False
