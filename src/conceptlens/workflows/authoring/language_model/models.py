"""Who drafts and who checks, from the words of the command line."""

from dataclasses import dataclass

from conceptlens.core.errors import UserError
from conceptlens.workflows.authoring.filters.wording import clean
from conceptlens.workflows.authoring.language_model.api_key import VARIABLE, Secret
from conceptlens.workflows.authoring.language_model.endpoint import Endpoint
from conceptlens.workflows.authoring.language_model.rate_limit import Pace


@dataclass(frozen=True)
class ModelsAsked:
    """Endpoints; None where answers are pasted."""

    drafter: Endpoint | None
    checker: Endpoint | None
    checker_name: str | None


def models_asked(
    endpoint: str | None = None,
    model: str | None = None,
    *,
    checker: str | None = None,
    checker_endpoint: str | None = None,
    key_variable: str = VARIABLE,
    checker_key_variable: str | None = None,
    timeout: float = 120.0,
    attempts: int = 5,
    per_minute: float = 0,
) -> ModelsAsked:
    """Endpoints for both models. They share a pace where they share an address.

    Raises:
        UserError: A model has no endpoint, an endpoint has several models and none is named, or an address is none.
    """
    if model and not endpoint:
        raise UserError("--model was given without --endpoint. Give an endpoint, or neither to paste answers.")
    if checker_endpoint and not checker:
        raise UserError("--checker-endpoint was given without --checker, the name of the second model there.")
    name = clean(checker, 120) if checker else None
    if checker and model and checker == model and (checker_endpoint or endpoint) == endpoint:
        raise UserError(f"--checker: {model!r} would check its own answers. Name another model, or leave it out.")
    secret = Secret.from_environment(key_variable)
    if endpoint and not model:
        model = _only_model(Endpoint(endpoint, "", secret, timeout))
    pace = Pace(per_minute)
    first = Endpoint(endpoint, model, secret, timeout, attempts, pace) if endpoint and model else None
    second = None
    where = checker_endpoint or endpoint
    if checker and where:
        # A key is for one address: another one gets its own, or none.
        other = where != endpoint
        variable = checker_key_variable or ("" if other else key_variable)
        key = Secret.from_environment(variable) if variable else Secret("")
        second = Endpoint(where, checker, key, timeout, attempts, Pace(per_minute) if other else pace)
    return ModelsAsked(first, second, name)


def _only_model(endpoint: Endpoint) -> str:
    """The model of a service that has one, as local servers do."""
    names = endpoint.served()
    if len(names) != 1:
        known = ", ".join(names[:8]) or "none"
        raise UserError(f"--endpoint: {endpoint.url} serves {len(names)} models ({known}). Choose one with --model.")
    return names[0]
