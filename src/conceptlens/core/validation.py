"""What pydantic finds wrong with a file, for people who do not write Python."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from conceptlens.core.errors import did_you_mean

Place = tuple[int | str, ...]


def explain_invalid(
    error: ValidationError, model_at: Callable[[Place], type[BaseModel]], plain: Mapping[str, str]
) -> str:
    """The first thing that is wrong, in words, with the closest match for a misspelled key.

    Args:
        error: From pydantic.
        model_at: The model that knows the keys beside the one at a place.
        plain: Words in the place of pydantic's, by kind of error.
    """
    problems = error.errors()  # a misspelled key makes another one missing; the misspelling is what helps
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    place = " → ".join(str(step) for step in first["loc"] if not str(step).startswith("function-"))
    if first["type"] == "extra_forbidden":
        known = [info.alias or key for key, info in model_at(first["loc"]).model_fields.items()]
        return f"{place}: this key is not known. {did_you_mean(str(first['loc'][-1]), known)}"
    message = plain.get(first["type"], first["msg"].removeprefix("Value error, "))
    came: Any = first.get("input")
    shown = "" if isinstance(came, (dict, list)) or first["type"] == "missing" else f", found {came!r}"
    return f"{place}: {message[:1].lower()}{message[1:]}{shown}."
