"""The key of an endpoint: read from the environment, sent to that endpoint only, and taken out of all that is kept."""

import os
from dataclasses import dataclass, field

VARIABLE = "CONCEPTLENS_API_KEY"
HIDDEN = "[secret]"
SHORTEST = 6  # characters; replacing a shorter key would hide ordinary text


@dataclass(frozen=True)
class Secret:
    """A key that does not print."""

    variable: str
    _value: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, variable: str = VARIABLE) -> "Secret":
        """The variable's value; an unset one means that the endpoint asks for no key, as local servers do."""
        return cls(variable, os.environ.get(variable, "").strip())

    def __bool__(self) -> bool:
        return bool(self._value)

    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def hide(self, text: str) -> str:
        """The text without the key: endpoints echo what they were sent, in errors and in answers."""
        return text.replace(self._value, HIDDEN) if len(self._value) >= SHORTEST else text
