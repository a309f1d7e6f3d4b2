"""A comparison as the page gets it: everything in results.json, and tables cut to what was asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conceptlens.core.files import read_json, write_json
from conceptlens.workflows.compare.table import latex, markdown
from tests.web.comparisons import make_comparison
from tests.web.conftest import client_of

AT = "/api/v1/runs/compared/comparison"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_comparison(tmp_path_factory.mktemp("comparisons"))


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Any]:
    with client_of(folder.parent) as made:
        yield made


def test_all_that_was_written_is_there(served: Any, folder: Path) -> None:
    raw, found = read_json(folder / "results.json"), served.get(AT).json()
    assert found["name"] == "three ways"
    assert [data["name"] for data in found["data"]] == ["shapes", "fewer shapes"]
    for data, written in zip(found["data"], raw["data"], strict=True):
        assert data["zero_shot"] == written["zero_shot"]
        assert [block["supervision"] for block in data["blocks"]] == ["text", "image-labels"]
        for block, of in zip(data["blocks"], written["blocks"], strict=True):
            assert (block["verdicts"], block["best"]) == (of["verdicts"], of["best"])
            assert block["comparisons"] == of["comparisons"]
            for row, one in zip(block["rows"], of["rows"], strict=True):
                assert {key: row[key] for key in ("name", "control_of", "bypass", "measures", "numbers", "ranks")} == {
                    key: one[key] for key in ("name", "control_of", "bypass", "measures", "numbers", "ranks")
                }


def test_each_row_names_its_trainings(served: Any, folder: Path) -> None:
    found = served.get(AT).json()
    cards = {card["key"]: card for card in served.get("/api/v1/runs").json()["runs"]}
    named = [run for data in found["data"] for block in data["blocks"] for row in block["rows"] for run in row["runs"]]
    assert len(named) == len(set(named)) == len(list((folder / "runs").iterdir())) == 16
    for data in found["data"]:
        for row in (row for block in data["blocks"] for row in block["rows"]):
            assert len(row["runs"]) == row["trainings"] == 2
            stem = f"{data['name']}-{row['name']}".replace(" ", "-").replace("(", "").replace(")", "")
            assert all(cards[run]["name"].startswith(f"{stem}-s") for run in row["runs"])


def test_tables_are_those_of_the_command(served: Any, folder: Path) -> None:
    raw = read_json(folder / "results.json")
    whole = served.get(f"{AT}/table.md")
    assert whole.text == markdown(raw)
    assert whole.headers["content-type"] == "text/markdown; charset=utf-8"
    assert served.get(f"{AT}/table.tex").text == latex(raw)
    assert served.get(f"{AT}/table.md", headers={"If-None-Match": whole.headers["etag"]}).status_code == 304


def test_tables_can_be_cut(served: Any) -> None:
    one = served.get(f"{AT}/table.md", params={"data": "shapes", "supervision": "text"}).text
    assert "## shapes" in one
    assert "fewer" not in one
    assert "**Text only**" in one
    assert "Labels per image" not in one
    assert "| told |" in one
    assert "bypass" not in one
    two = served.get(f"{AT}/table.tex", params={"supervision": ["image-labels"]}).text
    assert two.count("\\begin{tabular}") == 2
    assert "Text only" not in two
    assert "bypass: a residual" in two
    wrong = served.get(f"{AT}/table.md", params={"data": "shape"})
    assert wrong.status_code == 400
    assert "Did you mean 'shapes'?" in wrong.json()["error"]["message"]
    assert served.get(f"{AT}/table.md", params={"supervision": "hearsay"}).status_code == 422
    assert served.get(f"{AT}/table.pdf").status_code == 422


def test_what_is_damaged_or_not_there_is_said(tmp_path: Path, folder: Path) -> None:
    info = read_json(folder / "run.json")
    write_json(tmp_path / "early" / "run.json", info | {"status": "running"})
    raw = read_json(folder / "results.json")
    raw["data"][0]["blocks"][0]["rows"][0]["trainings"] = "many"
    write_json(tmp_path / "odd" / "run.json", info)
    write_json(tmp_path / "odd" / "results.json", raw)
    with client_of(tmp_path) as client:
        early = client.get("/api/v1/runs/early/comparison").json()["error"]
        assert (early["code"], early["command"]) == ("missing", f"conceptlens compare FILE --out {tmp_path / 'early'}")
        odd = client.get("/api/v1/runs/odd/comparison").json()["error"]
        assert odd["code"] == "broken"
        assert "data.0.blocks.0.rows.0.trainings" in odd["message"]
        evidence = client.get("/api/v1/methods/ivq-cbm/evidence")
        assert (evidence.status_code, evidence.json()["rows"]) == (200, [])


def test_evidence_of_a_method_is_its_rows_alone(served: Any) -> None:
    rows = served.get("/api/v1/methods/ivq-cbm/evidence").json()["rows"]
    assert len(rows) == 8  # four rows on each of two data sets
    assert {row["comparison"] for row in rows} == {"three ways"}
    told = next(row for row in rows if row["row"] == "told")
    assert (told["supervision"], told["control"], told["run"]) == ("text", False, "compared")
    table = served.get(AT).json()["data"][0]["blocks"][0]["rows"][0]
    assert told["measures"] == table["measures"]
    other = served.get("/api/v1/methods/cem/evidence").json()
    assert (other["rows"], other["runs"]) == ([], [])  # trainings of a comparison are not told twice
    assert served.get("/api/v1/methods/ivq-cmb/evidence").status_code == 404
