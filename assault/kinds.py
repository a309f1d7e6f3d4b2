"""Damaged folders of the other kinds: codebook studies, studies with raters, decompositions, comparisons."""

import contextlib
import importlib.util
import random
import shutil
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from assault.mutate import mutate_file
from assault.run_folders import files_of
from assault.watch import Hang, Part, command, judge, limited
from assault.world import World
from conceptlens.core import manifest
from conceptlens.web.server.app import create_app
from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.simulate import Simulated, simulate

SCRIPT = Path(__file__).parents[1] / "scripts" / "sample_runs.py"
WORDS: dict[str, tuple[list[str], ...]] = {
    "codebook": (
        ["codebook", "tokens", "{}", "--tokens-per-image", "4", "--noise-samples", "2", "--samples-per-concept", "5"],
        ["codebook", "search", "{}", "--starts", "2", "--steps", "2"],
        ["migrate", "{}"],
    ),
    "study": (["study", "analyze", "{}"], ["rehash", "{}", "--check"]),
    "decompose": (["resume", "{}", "--allow-code", "network.py"], ["name-concepts", "{}", "names.txt"]),
    "compare": (["compare", "comparison.yaml", "--out", "{}"], ["rehash", "{}"]),
}
_STUDIO, _GRAPH, _STUDY = "/runs/{}/studio", "/runs/{}/graphs/graph", "/studies/{}"
ADDRESSES = {
    "codebook": (
        "/runs/{}",
        _STUDIO,
        f"{_STUDIO}/images/0",
        f"{_STUDIO}/images/0/picture",
        f"{_STUDIO}/results/tokens",
    ),
    "study": ("/runs/{}", "/studies", _STUDY, f"{_STUDY}/analysis"),
    "decompose": ("/runs/{}", _GRAPH, f"{_GRAPH}/file", f"{_GRAPH}/nodes/0", f"{_GRAPH}/nodes/0/sheet"),
    "compare": ("/runs/{}", "/runs/{}/comparison", "/runs/{}/comparison/table.md", "/table"),
}


def assault_kinds(part: Part, world: World, seed: int, number: int) -> None:
    """Commands and the page on a folder of each kind of which one file is damaged."""
    place = world.root / "kinds"
    place.mkdir()
    with contextlib.chdir(place):
        _make()
        Path("names.txt").write_text("one/0,first\n", "utf-8")
        for each in range(number):
            draw = random.Random(f"kind {seed} {each}")
            kind = draw.choice((*WORDS,))
            damaged = Path("damaged")
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(kind, damaged)
            if draw.random() < 0.3 and (damaged / manifest.NAME).exists():
                (damaged / manifest.NAME).unlink()
            what = f"{kind}: {mutate_file(draw.choice(files_of(damaged)), draw)}"
            words = [word.format(damaged) for word in draw.choice(WORDS[kind])]
            judge(part, each, f"{' '.join(words[:2])}: {what}", command(*words, "--json"))
            _ask(part, each, what, ADDRESSES[kind])


def _ask(part: Part, each: int, what: str, addresses: tuple[str, ...]) -> None:
    client = TestClient(create_app([Path("damaged")]), base_url="http://127.0.0.1", raise_server_exceptions=False)
    for address in ("/runs", *addresses):
        part.attempts += 1
        try:
            with limited():
                answer = client.get(f"/api/v1{address.format('damaged')}")
        except Hang:
            part.found(each, f"{address}: {what}", "hang", "")
            continue
        part.accepted += answer.status_code == 200
        part.refused += answer.status_code in (400, 404, 409, 422)
        if answer.status_code >= 500:
            part.found(each, f"{address}: {what}", "server error", answer.text)


def _make() -> None:
    spec = importlib.util.spec_from_file_location("sample_runs", SCRIPT)
    assert spec
    assert spec.loader
    samples: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(samples)
    samples.make()
    key = Key.read(Path("study/key.json"))
    for rater in ("ann", "bob"):
        simulate(key, Simulated(rater)).write(Path(f"study/responses/responses-{key.study}-{rater}.json"))
