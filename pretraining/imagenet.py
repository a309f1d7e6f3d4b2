"""The 1,000 ImageNet classes in the order of their logits: wnids sorted, with names a person would use.

Definitions are WordNet's and stay there: `glosses` reads them from a folder with its files.
"""

from pathlib import Path

from conceptlens.core.errors import UserError
from pretraining.text.wordnet import read_senses, read_synsets

TABLE = Path(__file__).with_name("imagenet_classes.tsv")

_ROWS = [line.split("\t") for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
WNIDS = [row[0] for row in _ROWS]
NAMES = [row[1] for row in _ROWS]
SENSES = [row[2] for row in _ROWS]  # WordNet's sense keys: offsets change between its versions, these do not


def glosses(dict_folder: str | Path) -> list[str]:
    """What WordNet says each class is, in class order, from a folder that holds its `data.noun` and `index.sense`."""
    folder = Path(dict_folder)
    places = read_senses(folder)
    if missing := [key for key in SENSES if key not in places]:
        raise UserError(
            f"{folder}: expected WordNet 3.0 or 3.1; {len(missing)} classes, such as {missing[0]!r}, are not in it."
        )
    definitions = {synset.offset: synset.definition for synset in read_synsets(folder, "noun")}
    return [definitions[places[key]] for key in SENSES]
