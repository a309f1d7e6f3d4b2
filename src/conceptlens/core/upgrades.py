"""Files of earlier versions, upgraded when they are read: one function for each schema version. Numbers stay.

| schema | written by | what changed after it |
| --- | --- | --- |
| 1 | 0.1 | American spelling of keys, recipe sections and parameters; `axis` is `group`; keys of measures |
| 2 | 0.2 | `method.kind` and `method.reads` are `space`, `class_gradient` and `randint`; presets set them |
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from conceptlens.core.errors import UserError

SCHEMA = 3
T = TypeVar("T")

_KEYS_1 = {
    "regulariser": "regularizer",
    "colour_map": "color_map",
    "labelled": "labeled",
    "randomised": "randomized",
    "centre": "center",
    "centre_sigma": "center_sigma",
    "axes_at_chance": "groups_at_chance",
    "twin_correlation": "closest_correlation",
    "silences": "operating_points",
    **{
        f"{head}{name}_centred": f"{head}{name}_centered"
        for head in ("", "rank.", "rank_")
        for name in ("effective", "published")
    },
}
_VALUES_1 = {
    "regulariser": "regularizer",  # of `training.stages[].train`
    "learnt": "learned",  # of `dictionary`
    "highest, not told apart from all others": "highest, without a significant difference from all others",
}
# Values of training.loss.concept, method.slots, regularizer.per and method.depth, by the last part of the key
_OPTIONS_1 = {
    ("concept", "axis"): "group",
    ("slots", "axis"): "group",
    ("per", "axis"): "group",
    ("depth", "axes"): "groups",
}
_PARAMETERS_1 = (
    ("regulariser.", "regularizer."),
    (".quantiser.", ".quantizer."),
    ("grounding.centre", "grounding.center"),
    ("method.axis_text", "method.group_text"),
    ("method.axis", "method.group_of"),
)


# For messages about recipes that are written by hand: old key → new key, and (key, old value) → new value.
RENAMED_KEYS = {**_KEYS_1, "reads": "space"}
RENAMED_VALUES = _OPTIONS_1


def _from_1(tree: Any) -> Any:
    """Version 0.1's keys as they are called now."""
    if isinstance(tree, Mapping):
        renamed = {_KEYS_1.get(key, key): _option_1(key, _from_1(value)) for key, value in tree.items()}
        legend, twins = "code" in renamed, renamed.get("name") == "barlow-twins"
        if "colour" in renamed and (legend or twins):  # no concept of that name
            renamed["color"] = renamed.pop("colour")
        if "faces" in tree and ("sheet" in tree or "per_image" in tree):  # a node of a graph, or its settings
            renamed["crops"] = renamed.pop("faces")
        if "accounts" in tree and "sentence" in tree:  # an explanation, no class of that name
            renamed["decompositions"] = renamed.pop("accounts")
        return _measures_from_1(renamed)
    if isinstance(tree, list):
        return [_from_1(entry) for entry in tree]
    return _VALUES_1.get(tree, tree) if isinstance(tree, str) else tree


def _option_1(key: Any, value: Any) -> Any:
    """The value of a recipe's key, which may be dotted as in a comparison."""
    return (
        _OPTIONS_1.get((key.rpartition(".")[2], value), value)
        if isinstance(key, str) and isinstance(value, str)
        else value
    )


# Keys of results, renamed where the other keys of the same object show that it is one: (all of these, renamed).
_RESULTS_1: tuple[tuple[set[str], dict[str, str]], ...] = (
    ({"leaks", "twins"}, {"twins": "permutations", "false_alarms": "false_alarm_rate"}),
    ({"twins", "excess"}, {"twins": "permuted"}),
    ({"concept", "twin", "said"}, {"twin": "closest", "said": "predicted"}),
    ({"silence", "unlike"}, {"unlike": "ood", "silence": "selective"}),
    ({"warned", "bounds"}, {"warned": "flagged"}),
    ({"image", "p", "sign"}, {"sign": "score"}),
    ({"codes", "prototypes", "even_share"}, {"codes": "size", "prototypes": "codes"}),
    ({"targets", "blob"}, {"blob": "center_prior"}),
    ({"uniform", "blob"}, {"blob": "center_prior", "blind": "mean_region"}),
    ({"own - blob"}, {}),
    ({"gradcam - blob"}, {}),
)
_KINDS_1 = {
    "never said": "never predicted",
    "unread": "at chance",
    "idle": "no influence",
    "double": "duplicate",
    "unfed": "empty slot",
}  # of an audited concept


def _measures_from_1(tree: dict[Any, Any]) -> dict[Any, Any]:
    """An object of a result with the keys that it has now."""
    for keys, names in _RESULTS_1:
        if keys <= tree.keys():
            tree = {names.get(key, _pair_1(key)): value for key, value in tree.items()}
    if "kinds" in tree and "closest" in tree:
        tree["kinds"] = [_KINDS_1.get(kind, kind) for kind in tree["kinds"]]
    return tree


def _pair_1(key: Any) -> Any:
    """A difference of two maps, such as `own - blob`."""
    pairs = {" - blob": " - center_prior", " - blind": " - mean_region"}
    for old, new in pairs.items():
        if isinstance(key, str) and key.endswith(old):
            return key.removesuffix(old) + new
    return key


_RELEASED_2 = ("coop-cbm-released", "explicd-released", "ivq-cbm-released", "mvp-cbm-released")
_LOGITS_2 = ("cbm", "coop-cbm", "dot-cbm", "ivq-cbm", "magnet-cbm", "mvp-cbm", *_RELEASED_2)
_PROBABILITIES_2 = ("cbm-sequential", "cbm-independent", "explicd", "pf-cbm", "pf-cbm-sequential")


def _from_2(tree: Any) -> Any:
    """A recipe whose method says what its class head read, which its preset said before. Other files stay."""
    if not isinstance(tree, Mapping) or not isinstance(tree.get("method"), Mapping):
        return tree
    method = dict(tree["method"])
    name = method.get("name")
    if name in _LOGITS_2 or name in _PROBABILITIES_2:
        kind, reads = method.pop("kind", None), method.pop("reads", "auto")
        kind = kind or next((word for word in ("sequential", "independent") if word in str(name)), "joint")
        own = "logits" if name in _LOGITS_2 else "probabilities"
        method |= {
            "space": "logit" if (own if reads == "auto" else reads) == "logits" else "probability",
            "class_gradient": 1.0 if kind == "joint" else 0.0,
            "randint": 1.0 if kind == "independent" else 0.0,
            "head_rate": 1.0,
        }
    if name == "cem" or "space" in method:
        method["calibrate"] = False
    return {**tree, "method": method}


UPGRADES: dict[int, Callable[[Any], Any]] = {1: _from_1, 2: _from_2}


def upgrade(
    tree: Any, *, where: str, schema: int | None = None, writer: Callable[[], str | None] = lambda: None
) -> Any:
    """A document as this version reads it.

    Args:
        tree: What was read.
        where: For messages.
        schema: Its version; the document's own entry `schema` by default, without one it is taken as it is.
        writer: Finds the version of conceptlens that wrote it, for the message.

    Raises:
        UserError: A newer version wrote it.
    """
    version = schema if schema is not None else tree.get("schema", SCHEMA) if isinstance(tree, Mapping) else SCHEMA
    if not isinstance(version, int) or version not in (*UPGRADES, SCHEMA):
        needed = f" to version {found} or later" if (found := writer()) else ""
        raise UserError(
            f"{where}: written with schema {version!r}; this version reads schemas up to {SCHEMA}. "
            f"Update conceptlens{needed}."
        )
    while version < SCHEMA:
        tree = UPGRADES[version](tree)
        version += 1
    if isinstance(tree, dict) and "schema" in tree:
        tree["schema"] = SCHEMA
    return tree


def upgrade_parameters(state: Mapping[str, T]) -> dict[str, T]:
    """Weights by the names that parameters have now."""
    renamed: dict[str, T] = {}
    for name, value in state.items():
        for old, new in _PARAMETERS_1:
            name = new + name.removeprefix(old) if name.startswith(old) else name.replace(old, new)
        renamed[name] = value
    return renamed
