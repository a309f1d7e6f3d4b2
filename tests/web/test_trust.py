"""The documents of the trust view: served as they were written, and named with their command where they are not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conceptlens.evaluation.subgroups.failures import Failures
from conceptlens.runs.results import register_result, unregister_result
from tests.web.conftest import client_of

DOCUMENTS = {
    "interventions": ("trust/interventions.json", "interventions"),
    "leakage": ("trust/leakage.json", "leakage"),
    "failures": ("trust/failures.json", "audit"),
    "audit": ("audit/audit.json", "audit"),
    "localization": ("localization.json", "localize"),
    "faithfulness": ("faithfulness.json", "faithfulness"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_served_as_written_or_named_with_its_command(measured: Path, name: str) -> None:
    file, words = DOCUMENTS[name]
    with client_of(measured) as client:
        answer = client.get(f"/api/v1/runs/measured/documents/{name}")
        assert answer.json() == json.loads((measured / "measured" / file).read_text("utf-8"))
        again = client.get(f"/api/v1/runs/measured/documents/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304
        lacking = client.get(f"/api/v1/runs/bare/documents/{name}")
        assert lacking.status_code == 409
        assert lacking.json()["error"]["command"] == f"conceptlens {words} {measured / 'bare'}"
        bare: dict[str, Any] = client.get("/api/v1/runs/bare").json()
        assert bare["missing"][name] == f"conceptlens {words} {measured / 'bare'}"
        assert name not in bare["card"]["has"]
        assert name in client.get("/api/v1/runs/measured").json()["card"]["has"]


def test_a_registered_result_is_listed_and_served(measured: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "bare"
    shutil.copytree(measured / "bare", run)
    register_result("sparsity", "sparsity.json", "How many concepts decide.", command="sparsity {}")
    try:
        with client_of(tmp_path / "runs") as client:
            address = "/api/v1/runs/bare/documents/sparsity"
            assert client.get(address).json()["error"]["command"] == f"conceptlens sparsity {run}"
            (run / "sparsity.json").write_text('{"concepts": 3}', "utf-8")
            assert client.get(address).json() == {"concepts": 3}
            detail = client.get("/api/v1/runs/bare").json()
            assert "sparsity" in detail["card"]["has"]
            assert detail["results"]["sparsity"] == "How many concepts decide."
    finally:
        unregister_result("sparsity")
    with client_of(tmp_path / "runs") as client:
        assert client.get("/api/v1/runs/bare/documents/sparsity").status_code == 404
        assert client.get("/api/v1/runs/bare/documents/model").status_code == 404  # a file, but no document


def test_calibration_has_bins_of_class_and_concepts(measured: Path) -> None:
    found = Failures.read(measured / "measured" / "trust" / "failures.json")
    assert sum(each.answers for each in found.calibration.points) == found.images
    assert found.concept_calibration[0].question == "all concepts"
    assert found.concept_calibration[0].answers == sum(each.answers for each in found.concept_calibration[1:])


def test_an_older_file_without_bins_is_still_read(measured: Path, tmp_path: Path) -> None:
    raw = json.loads((measured / "measured" / "trust" / "failures.json").read_text("utf-8"))
    del raw["concept_calibration"]
    raw["calibration"] = {key: raw["calibration"][key] for key in ("error", "by_chance", "bins")}
    (tmp_path / "failures.json").write_text(json.dumps(raw), "utf-8")
    found = Failures.read(tmp_path / "failures.json")
    assert found.calibration.points == []
    assert found.concept_calibration == []
