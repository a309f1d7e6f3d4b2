"""The table of results: it names what exists, and takes in results of others."""

from collections.abc import Iterator
from typing import get_args

import pytest

from conceptlens.cli.entry import COMMANDS
from conceptlens.core.documents import Document
from conceptlens.core.errors import UserError
from conceptlens.runs.results import BUILT_IN, Kind, find_result, register_result, results, unregister_result


@pytest.fixture
def sparsity() -> Iterator[str]:
    register_result("sparsity", "sparsity.json", "How many concepts decide.", command="sparsity {}")
    yield "sparsity"
    unregister_result("sparsity")


def test_declared_classes_read_documents() -> None:
    declared = [result for result in BUILT_IN if result.document]
    assert len(declared) >= 12
    for result in declared:
        assert issubclass(result.load_class(), Document), result.name
        assert result.load_class().remedy
    with pytest.raises(UserError, match="plain JSON"):
        find_result("metrics").load_class()


def test_commands_exist() -> None:
    for result in BUILT_IN:
        if result.command:
            words = result.command.split()
            assert words[0] in COMMANDS or " ".join(words[:2]) in COMMANDS, result.command


def test_names_and_files_are_there_once() -> None:
    for kind in get_args(Kind):
        members = [result for result in BUILT_IN if result.kind == kind]
        assert len({result.name for result in members}) == len({result.file for result in members}) == len(members)
        assert all(result.about.endswith(".") for result in members)


def test_a_result_of_ones_own(sparsity: str) -> None:
    assert results()[sparsity].served
    assert list(results())[-1] == sparsity
    again = register_result("sparsity", "sparsity.json", "How many concepts decide.", command="sparsity {}")
    assert again is not None
    assert list(results()).count(sparsity) == 1
    assert sparsity not in results("codebook")


@pytest.mark.parametrize(
    ("name", "file", "says"),
    [
        ("leakage", "mine.json", "taken by the result leakage"),
        ("mine", "trust/leakage.json", "taken by the result leakage"),
        ("Mine!", "mine.json", "lower case"),
        ("mine", "../mine.json", "inside the run folder"),
        ("mine", "/etc/mine.json", "inside the run folder"),
    ],
)
def test_what_cannot_be_registered(name: str, file: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        register_result(name, file, "Something.")
    assert "mine" not in results()


def test_an_unknown_result_is_named() -> None:
    with pytest.raises(UserError, match=r"'lekage'.*leakage"):
        find_result("lekage")
