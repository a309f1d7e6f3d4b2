"""What a generator is asked for: a class, any subset of attributes, or nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conceptlens.core.errors import UserError, unknown_name

NEUTRAL = "neutral"


@dataclass(frozen=True)
class Condition:
    """A class and some attributes; with neither, the null condition."""

    class_name: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        words = [self.class_name] if self.class_name is not None else []
        words += [f"{group}={value}" for group, value in self.attributes.items()]
        return ", ".join(words) or NEUTRAL


def parse_condition(text: str, classes: Sequence[str], attributes: Mapping[str, Sequence[str]]) -> Condition:
    """A condition from words: `Basophil`, `cell size=big`, `Basophil, cell size=big`, or `neutral`.

    Args:
        text: The words.
        classes: What the model knows.
        attributes: The model's groups, each with its values.
    """
    chosen: str | None = None
    values: dict[str, str] = {}
    for word in (part.strip() for part in text.split(",")):
        if not word:
            raise UserError(f"{text!r}: expected a class, `group=value` or `{NEUTRAL}`, found an empty word.")
        group, equals, value = (part.strip() for part in word.partition("="))
        if equals:
            if group not in attributes:
                raise unknown_name("attribute", group, attributes)
            if value not in attributes[group]:
                raise unknown_name(f"value of {group!r}", value, attributes[group])
            if group in values:
                raise UserError(f"{text!r}: {group!r} is given twice.")
            values[group] = value
        elif word == NEUTRAL:
            continue
        elif word not in classes:
            raise unknown_name("class", word, [*classes, *(f"{name}=…" for name in attributes), NEUTRAL])
        elif chosen is not None:
            raise UserError(f"{text!r}: expected one class at most, found {chosen!r} and {word!r}.")
        else:
            chosen = word
    return Condition(chosen, values)
