"""Names that people gave to the nodes of a graph (`annotations.jsonl`), in the place of `concept 12`."""

from collections.abc import Mapping

from conceptlens.gig.document import Graph, Node
from conceptlens.runs.annotations import Annotation


def with_names(graph: Graph, said: Mapping[str, Annotation]) -> Graph:
    """The same graph, its concepts called as people call them; the group that they gave stands before the name."""

    def named(node: Node) -> Node:
        known = said.get(node.id) if node.kind == "concept" else None
        if known is None:
            return node
        return node.model_copy(update={"name": ": ".join(filter(None, (known.group, known.name or node.name)))})

    return graph.model_copy(update={"nodes": [named(node) for node in graph.nodes]})
