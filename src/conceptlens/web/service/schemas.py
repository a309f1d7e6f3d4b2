"""What the service answers with; its OpenAPI description is made of this."""

from pydantic import BaseModel, Field


class Evidence(BaseModel):
    """Where a concept was read: its logit is the sum of the map, and what has no place."""

    grid: list[int] = Field(description="Rows and columns of the map.")
    map: list[list[float]] = Field(description="Signed evidence of each patch, row by row.")
    unplaced: float = Field(description="The part of the concept's logit that has no place.")
    logit: float


class Prediction(BaseModel):
    """What the model says of one image; `error` alone, where it could not be read."""

    image: str
    predicted: list[str] | None = Field(default=None, description="One class, or several of a multi-label model.")
    probabilities: dict[str, float] | None = Field(default=None, description="By class.")
    concepts: dict[str, dict[str, float]] | None = Field(default=None, description="Group → value → probability.")
    prediction_set: list[str] | None = Field(
        default=None, description="Classes that cannot be excluded; null: the run cannot tell."
    )
    unlike_training: bool | None = Field(default=None, description="Do not rely on the answer if true.")
    out_of_distribution_score: float | None = Field(
        default=None, description="Distance from the training images; above 1, the image is unlike them."
    )
    evidence: dict[str, Evidence] | None = Field(default=None, description="By concept, where it was asked for.")
    error: str | None = None


class Predictions(BaseModel):
    model: str = Field(description="Hash of the weights.")
    predictions: list[Prediction]


class About(BaseModel):
    """Which model answers."""

    run: str
    model: str = Field(description="Hash of the weights.")
    method: str
    classes: list[str]
    concepts: list[str]
    image_size: int
    device: str
    evidence: bool = Field(description="Whether the method can tell where it read a concept.")
    without: list[str] = Field(description="What the model cannot say of images, and why.")


class State(BaseModel):
    status: str
