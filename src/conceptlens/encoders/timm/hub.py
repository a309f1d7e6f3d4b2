"""Published weights from the hub, as safetensors only: what exists as a pickle alone is refused."""

from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from conceptlens.core.errors import UserError
from conceptlens.core.network import is_offline
from conceptlens.encoders.weights_file import convert_command

FILE = "model.safetensors"
PICKLES = ("pytorch_model.bin", "open_clip_pytorch_model.bin", "open_clip_model.bin", "model.pth", "pytorch_model.pth")
INSTEAD = "Give a local file (`encoder.weights: FILE.safetensors`) or start from scratch (`encoder.pretrained: false`)."


def published_weights(name: str, config: dict[str, Any], instead: str = INSTEAD) -> Path:
    """The .safetensors file of a timm model, from the hub or from its cache on this machine.

    Args:
        name: The encoder's name, for errors.
        config: The model's `pretrained_cfg`.
        instead: What to do if they cannot be had.
    """
    identifier = config.get("hf_hub_id")
    if not identifier:
        kind = "only in a format that is never loaded" if config.get("url") else "nowhere"
        raise UserError(f"{name}: its weights are published {kind}; safetensors on the hub are needed. {instead}")
    repository, _, revision = str(identifier).partition("@")
    return from_hub(name, repository, FILE, instead=instead, revision=revision or None)


def from_hub(name: str, repository: str, file: str, *, instead: str, revision: str | None = None) -> Path:
    """One file of a repository, from the hub or from its cache on this machine.

    Args:
        name: The encoder's name, for errors.
        repository: `ORGANIZATION/NAME`.
        file: The file's name there.
        instead: What to do if it cannot be had.
        revision: A branch, tag or commit.
    """
    try:
        return Path(hf_hub_download(repository, file, revision=revision, local_files_only=is_offline()))
    except EntryNotFoundError as error:
        if file.endswith(".safetensors") and (converted := _beside_a_pickle(name, repository, file, revision)):
            return converted
        if not isinstance(error, LocalEntryNotFoundError):
            pickles = ", and pickles are never loaded" if file.endswith(".safetensors") else ""
            raise UserError(f"{name}: {repository} on the hub has no {file}{pickles}. {instead}") from None
        reason = "the hub cannot be reached and the file is not in the cache"
        if is_offline():
            reason = "it is not in the cache, and a command on an existing run asks no hub without --online"
    except Exception as error:  # the hub's errors come from several HTTP libraries without a common base
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no details'}"
    raise UserError(f"{name}: expected {file} from the hub ({repository}), but {reason}. {instead}")


def _beside_a_pickle(name: str, repository: str, file: str, revision: str | None) -> Path | None:
    """What a user made of the pickle in the hub's cache; where only the pickle is there, the line that converts it."""
    for pickle in PICKLES:
        cached = try_to_load_from_cache(repository, pickle, revision=revision)
        if isinstance(cached, str):
            target = Path(cached).parent / file
            if target.is_file():
                return target
            raise UserError(
                f"{name}: the hub's cache has {pickle} of {repository}, but pickled weights can run code when opened "
                f"and are never loaded. If you trust the file, convert it once:\n  {convert_command(cached, target)}"
            )
    return None


def weights_in(folder: Path, names: tuple[str, ...] = (FILE,)) -> Path:
    """The weights in a folder; a pickle if there is nothing else, which the reader then refuses with a hint."""
    for file in (*names, *PICKLES):
        if (folder / file).is_file():
            return folder / file
    others = [*sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*.bin")), *sorted(folder.glob("*.pt*"))]
    if len(others) != 1:
        found = ", ".join(file.name for file in others) or "none"
        raise UserError(f"{folder}: expected weights called {names[0]}, found {found}.")
    return others[0]
