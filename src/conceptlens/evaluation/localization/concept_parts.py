"""Which region each concept should look at: the part its name speaks of, where that is annotated."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.labels.words import match


def concept_parts(concepts: ConceptSet, names: Sequence[str], given: Mapping[str, str]) -> npt.NDArray[np.int64]:
    """The position in `names` of each concept's part, (K,); −1 for one without a part that the data knows.

    Args:
        concepts: The vocabulary; a concept's `part` is its own unless `given` says otherwise.
        names: Regions of the data, `object` among them.
        given: Concept or group: part, from the recipe's `data.regions.concepts`. Must name parts of the data.
    """
    groups = {group.name: list(range(group.concepts.start, group.concepts.stop)) for group in concepts.groups}
    members = {**groups, **{name: [position] for position, name in enumerate(concepts.names)}}
    wanted = [concept.part for concept in concepts.concepts]
    # Groups first, so that a single concept can differ from its group.
    for key in sorted(given, key=lambda key: key not in groups):
        if key not in members:
            raise UserError(f"data.regions.concepts: {unknown_name('concept or group', key, members)}")
        if not match(given[key], names):
            raise UserError(f"data.regions.concepts: {key}: {unknown_name('part', given[key], names)}")
        for position in members[key]:
            wanted[position] = given[key]
    positions = [list(names).index(found[0]) if part and (found := match(part, names)) else -1 for part in wanted]
    return np.array(positions, dtype=np.int64)
