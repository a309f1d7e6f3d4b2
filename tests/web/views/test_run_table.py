"""The table of runs: metrics by their path, intervals, and a test before a run is called best."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conceptlens.core import manifest
from conceptlens.web.views.run_table import flat
from tests.web.conftest import World, client_of


def test_numbers_are_named_by_their_path() -> None:
    tree = {"class": {"n": 3, "accuracy": 0.5, "confusion": [[1]], "per_class": {"a": 1}}, "intervals": {"x": [0, 1]}}
    assert flat(tree) == {"class.n": 3.0, "class.accuracy": 0.5}


def test_every_model_has_a_row(client: Any) -> None:
    rows = {row["key"]: row for row in client.get("/api/v1/table").json()["rows"]}
    assert set(rows) == {"slots", "group--whole"}
    assert 0 <= rows["slots"]["metrics"]["class.accuracy"] <= 1
    low, high = rows["slots"]["intervals"]["class.accuracy"]
    assert low <= rows["slots"]["metrics"]["class.accuracy"] <= high


def test_a_run_has_a_tag_and_a_note(own_world: World) -> None:
    with client_of(own_world.root) as client:
        said = {"author": "Ann", "kind": "run", "of": ["run"], "group": "keep", "note": "the first one"}
        assert client.post("/api/v1/runs/slots/annotations", json=said).json()["run"]["group"] == "keep"
        rows = {row["key"]: row for row in client.get("/api/v1/table").json()["rows"]}
        assert (rows["slots"]["tag"], rows["slots"]["note"]) == ("keep", "the first one")
        assert client.post("/api/v1/runs/slots/annotations", json={**said, "author": "="}).status_code == 409
        assert client.post("/api/v1/runs/slots/annotations", json={**said, "kind": "x"}).status_code == 422


def perfect(run: Path) -> None:
    """Let a run say the truth of every test image."""
    path = run / "predictions" / "test.safetensors"
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        words = file.metadata()
    tensors = load_file(path)
    tensors["logits"] = (np.eye(tensors["logits"].shape[1])[tensors["labels"]] * 20).astype(np.float32)
    save_file(tensors, path, words)
    manifest.record(path)


def test_best_needs_a_significant_difference(own_world: World) -> None:
    shutil.copytree(own_world.slots, own_world.root / "same")
    shutil.copytree(own_world.slots, own_world.root / "right")
    perfect(own_world.root / "right")
    with client_of(own_world.root) as client:

        def ask(*runs: str, metric: str = "class.accuracy") -> Any:
            return client.post("/api/v1/table/best", json={"metric": metric, "runs": list(runs)})

        equal = ask("slots", "same").json()
        assert equal["best"] is None
        assert equal["p"] == {"same": pytest.approx(1.0)}
        judged = ask("slots", "right", "same").json()
        assert (judged["highest"], judged["best"]) == ("right", "right")
        assert judged["values"]["right"] == 1.0
        assert max(judged["p"].values()) < 0.05
        assert ask("slots", "slots").status_code == 400
        assert ask("slots", "right", metric="class.ece").status_code == 400
        assert ask("slots", "nothing").status_code == 404
