"""The API against its own schema: whatever is sent, the answer is one that the schema knows."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import World

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
pytest.importorskip("fastapi", reason="the page needs the extra `page`")

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from conceptlens.web.server.app import create_app
from conceptlens.web.server.safety import Policy
from tests import ROOT

DOCUMENT = "/api/v1/openapi.json"
DOCS = ROOT / "docs" / "api.md"
WANTED = settings(
    max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="session")
def schema(world: World, tmp_path_factory: pytest.TempPathFactory) -> Any:
    copy = shutil.copytree(world.root, tmp_path_factory.mktemp("schema") / "runs")  # corrections will be written
    app = create_app([copy], policy=Policy(None, frozenset({"testserver"})))
    return schemathesis.openapi.from_asgi(DOCUMENT, app)


def send_anything(schema: Any, mode: GenerationMode, change: Callable[[Any], None]) -> int:
    """Cases of all operations, made from the schema; returns of how many operations."""
    seen = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @WANTED
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            change(case)
            # An edit, a class or a column that does not exist is of the right shape and still means nothing: 400.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        try:
            send()
        except Unsatisfiable:  # takes nothing, so nothing can be wrong with it
            assert mode is GenerationMode.NEGATIVE
            continue
        seen += 1
    return seen


def operations(document: Any) -> dict[tuple[str, str], Any]:
    """By method and address."""
    return {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_whatever_is_sent(schema: Any, mode: GenerationMode) -> None:
    known = operations(schema.raw_schema).values()
    taking = [each for each in known if each.get("parameters") or each.get("requestBody")]
    wanted = len(known) if mode is GenerationMode.POSITIVE else len(taking)
    assert send_anything(schema, mode, lambda case: None) == wanted >= 17


@pytest.mark.slow
def test_whatever_is_sent_about_a_run_that_exists(schema: Any) -> None:
    def real(case: Any) -> None:
        if "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = "slots"
        if "row" in (case.path_parameters or {}):
            case.path_parameters |= {"row": 0, "split": "test"}

    assert send_anything(schema, GenerationMode.POSITIVE, real) == len(operations(schema.raw_schema))


def test_the_schema_names_every_address_and_every_error(client: Any) -> None:
    known = operations(client.get(DOCUMENT).json())
    for address, operation in known.items():
        assert {"400", "401", "403", "404", "409", "500", "503"} <= set(operation["responses"]), address
        assert "200" in operation["responses"]


def test_every_address_is_documented(client: Any) -> None:
    told = DOCS.read_text("utf-8")
    known = operations(client.get(DOCUMENT).json())
    assert [" ".join(each) for each in known if " ".join(each) not in told] == []
