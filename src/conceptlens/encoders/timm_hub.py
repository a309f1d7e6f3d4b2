"""Published weights of timm models, as safetensors only: what exists as a pickle alone is refused."""

from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from conceptlens.errors import UserError

FILE = "model.safetensors"
INSTEAD = "Give a local file (`encoder.weights: FILE.safetensors`) or start from scratch (`encoder.pretrained: false`)."


def published_weights(name: str, config: dict[str, Any]) -> Path:
    """The .safetensors file of a timm model, from the hub or from its cache on this machine.

    Args:
        name: The encoder's name, for errors.
        config: The model's `pretrained_cfg`.
    """
    identifier = config.get("hf_hub_id")
    if not identifier:
        kind = "only in a format that is never loaded" if config.get("url") else "nowhere"
        raise UserError(f"{name}: its weights are published {kind}; safetensors on the hub are needed. {INSTEAD}")
    repository, _, revision = str(identifier).partition("@")
    try:
        return Path(hf_hub_download(repository, FILE, revision=revision or None))
    except EntryNotFoundError as error:
        if not isinstance(error, LocalEntryNotFoundError):
            raise UserError(
                f"{name}: {repository} on the hub has no {FILE}, and pickles are never loaded. {INSTEAD}"
            ) from None
        reason = "the hub cannot be reached and the file is not in the cache"
    except Exception as error:  # the hub's errors come from several HTTP libraries without a common base
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no details'}"
    raise UserError(f"{name}: expected published weights from the hub ({repository}), but {reason}. {INSTEAD}")
