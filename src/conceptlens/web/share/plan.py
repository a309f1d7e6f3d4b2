"""What each view needs: the addresses that it asks, those that their answers lead to, pictures and files."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any
from urllib.parse import urlencode

from conceptlens.runs.results import Kind, results

Follow = Callable[[str, Mapping[str, Any]], Iterable[str]]  # the folder's address and bodies by address → addresses


def _nothing(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class View:
    """A view that can be shared; `{}` is the folder's own address."""

    kinds: tuple[Kind, ...]  # of folders that it shows; none: only if it is asked for
    asks: tuple[str, ...]
    needs: str | None = None  # the one of `asks` without which there is nothing to see; `any`: one of them
    images: bool = False  # shows images of the run's data, with their predictions
    more: Follow = _nothing  # what is asked besides, once those are answered
    files: Follow = _nothing  # pictures and tables, most wanted first


def _registered(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    """Documents that are there and were declared after this module was loaded."""
    addresses = [f"{run}/documents/{name}" for name in told[run]["results"] if results()[name].view == "trust"]
    return [address for address in addresses if address not in told]


def _evidence(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    return [f"methods/{each['name']}/evidence" for each in told["methods"]["methods"]]


def _tables(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    """A table of every choice of data and block, as the filters of the view make them."""
    data = told[f"{run}/comparison"]["data"]
    blocks = dict.fromkeys(block["supervision"] for each in data for block in each["blocks"])
    for one, block in product([None, *(each["name"] for each in data)], [None, *blocks]):
        query = urlencode([(name, value) for name, value in (("data", one), ("supervision", block)) if value])
        yield from (f"{run}/comparison/table.{form}?{query}" for form in ("md", "tex"))


def _graphs(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    """Other graphs of the folder, and the sheets of all nodes; a graph is answered before its nodes are asked for."""
    for name in told[f"{run}/graphs/classes"]["others"]:
        graph = f"{run}/graphs/{name}"
        if graph not in told:
            yield graph
        yield from (f"{graph}/nodes/{place}" for place in range(len(told.get(graph, {}).get("nodes", ()))))


def _sheets(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    """Images of the graphs, and sheets of their nodes, those that matter most first."""
    graphs = [f"{run}/graphs/{name}" for name in told[f"{run}/graphs/classes"]["others"]]
    known = [(graph, told[graph]) for graph in graphs if graph in told]
    for graph, body in known:
        yield from (f"{graph}/images/{place}" for place in range(body["images"]))
    nodes = [(graph, place, node) for graph, body in known for place, node in enumerate(body["nodes"]) if node["crops"]]
    nodes.sort(key=lambda each: -max(map(abs, each[2]["shares"]), default=0.0))
    yield from (f"{graph}/nodes/{place}/sheet" for graph, place, _ in nodes)


def _studio(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    about = told[f"{run}/studio"]
    yield from (f"{run}/studio/results/{name}" for name in about["has"])
    yield from (f"{run}/studio/images/{each['row']}" for each in about["images"])


def _pictures(run: str, told: Mapping[str, Any]) -> Iterable[str]:
    """Every picture that an answer names."""
    return (each.removeprefix("/api/v1/") for address in told for each in _addresses(told[address]))


def _addresses(value: Any) -> Iterable[str]:
    if isinstance(value, str) and value.startswith("/api/v1/"):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _addresses(each)


TRAINED: tuple[Kind, ...] = ("bottleneck",)
_DOCUMENTS = tuple(
    f"{{}}/documents/{result.name}" for result in results().values() if result.served and result.view == "trust"
)
# In the order of the tabs. Views that are not here need a server: runs, of many folders, and study, which collects.
SHARED = {
    "image": View(TRAINED, ("{}/head",), images=True),
    "what-if": View(TRAINED, ("{}/head",), "{}/head", images=True),
    "training": View(TRAINED, ("{}/history",), "{}/history"),
    "concepts": View(TRAINED, ("{}/concepts", "{}/codebook"), "{}/concepts", images=True),
    "trust": View(TRAINED, _DOCUMENTS, "any", more=_registered),
    "graph": View(("decomposition",), ("{}/graphs/classes",), "{}/graphs/classes", more=_graphs, files=_sheets),
    "studio": View(("codebook",), ("{}/studio",), "{}/studio", more=_studio, files=_pictures),
    "compare": View(("comparison",), ("{}/comparison",), "{}/comparison", files=_tables),
    "methods": View((), ("methods",), "methods", more=_evidence),
}
