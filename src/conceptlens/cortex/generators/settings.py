"""What a checkpoint does not say of itself, and how its tokens are drawn. Imports nothing heavy."""

from dataclasses import dataclass, fields, replace

from conceptlens.core.errors import UserError


@dataclass(frozen=True)
class CheckpointOptions:
    """What must be told of a published generator.

    Args:
        transformer: File of the model that writes the tokens, where it is apart from the tokenizer (LlamaGen, VAR).
        config: The YAML that taming's training wrote; found by itself in `configs/` beside `checkpoints/`.
        heads: Attention heads of the transformer, where neither tensors nor a configuration say it.
        classes: Number of classes of a taming transformer without a configuration: says that it is class-conditional.
    """

    transformer: str | None = None
    config: str | None = None
    heads: int | None = None
    classes: int | None = None

    def __post_init__(self) -> None:
        for option, value in (("heads", self.heads), ("classes", self.classes)):
            if value is not None and value < 1:
                raise UserError(f"--{option}: expected at least 1, found {value}.")

    def given(self) -> list[str]:
        """The options that were given."""
        return [option.name for option in fields(self) if getattr(self, option.name) is not None]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; what is None is the model's own default.

    Args:
        temperature: Logits are divided by it before a token is drawn.
        top_k: Draw among so many of the most probable tokens; 0 for all.
        top_p: Draw among the most probable tokens whose probabilities first add up to this; 1 for all.
        guidance: Classifier-free guidance of models that know a null class: LlamaGen moves to s times the way from the
            null class to the class (1: none), VAR and the built-in one go that much further (0: none).
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    guidance: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and self.temperature <= 0:
            raise UserError(f"--temperature: expected a number above 0, found {self.temperature}.")
        if self.top_k is not None and self.top_k < 0:
            raise UserError(f"--top-k: expected 0 (all) or more, found {self.top_k}.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"--top-p: expected a share above 0 and at most 1, found {self.top_p}.")
        if self.guidance is not None and self.guidance < 0:
            raise UserError(f"--guidance: expected 0 or more, found {self.guidance}.")

    def given(self) -> dict[str, float]:
        """The values that were given, by name."""
        return {option.name: value for option in fields(self) if (value := getattr(self, option.name)) is not None}

    def over(self, defaults: "Sampling") -> "Sampling":
        """These values, and defaults where there are none."""
        return replace(defaults, **self.given())  # type: ignore[arg-type]


NOTHING_TOLD, AS_USUAL = CheckpointOptions(), Sampling()
