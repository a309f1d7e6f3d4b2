"""To and from a hub that speaks Hugging Face's protocol (`HF_ENDPOINT` names another one); needs `huggingface_hub`.

Only files that a published run has are fetched. None of them is code, nothing is unpickled, and a run that names code
is refused as any other. What was fetched once is in the hub's cache and needs no network.
"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.files import new_folder
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.hub.published import FILES, save_published

SCHEME = "hf://"


def parse_address(address: str) -> tuple[str, str | None]:
    """`hf://USER/NAME@REVISION`, with or without scheme and revision → repository and revision.

    >>> parse_address("hf://lab/cells@v2")
    ('lab/cells', 'v2')
    """
    repository, _, revision = address.removeprefix(SCHEME).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise UserError(f"{address}: expected a repository of the hub, as hf://USER/NAME or hf://USER/NAME@REVISION.")
    return repository, revision or None


def push_run(
    run: OpenedRun, repository: str, *, private: bool = True, license: str | None = None, message: str | None = None
) -> str:
    """Publish a run; returns its address.

    Args:
        run: The run.
        repository: `USER/NAME`; is made if it is not there.
        private: Make a new repository one that only you see.
        license: Of the weights, for the card.
        message: Of the commit.
    """
    name, revision = parse_address(repository)
    hub = _hub()
    with tempfile.TemporaryDirectory(prefix="conceptlens-") as scratch:
        folder = Path(scratch) / "published"
        save_published(run, folder, license=license, repository=name)
        api = hub.HfApi(library_name="conceptlens")
        try:
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=name, folder_path=folder, revision=revision, commit_message=message or "A conceptlens model"
            )
        except Exception as error:  # the hub's errors come from several HTTP libraries without a common base
            raise UserError(
                f"{name}: the hub did not take it ({_first_line(error)}). Log in with `hf auth login`; check the name."
            ) from None
    return f"{SCHEME}{name}"


def fetch_run(address: str) -> Path:
    """The folder of a published run in the hub's cache; from there alone, where the hub cannot be reached."""
    name, revision = parse_address(address)
    hub = _hub()
    try:
        folder = Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:
        raise UserError(
            f"{address}: cannot be fetched ({_first_line(error)}). Check the name, log in with `hf auth login` if it "
            "is private, or copy the run folder."
        ) from None
    if not (folder / "run.json").is_file():
        raise UserError(f"{address}: this is no model of conceptlens: it has no run.json.")
    return folder


def pull_run(address: str, out: str | Path | None = None) -> Path:
    """A published run as a run folder of its own.

    Args:
        address: `USER/NAME`, with or without `hf://` and `@REVISION`.
        out: The folder; `runs/NAME` by default. One that exists is refused.
    """
    folder = Path(out) if out is not None else Path("runs") / parse_address(address)[0].partition("/")[2]
    if folder.exists():
        raise UserError(f"{folder}: is already there. Choose another folder with --out.")
    found = fetch_run(address)
    with new_folder(folder) as aside:
        for name in FILES:
            if (found / name).is_file():
                (aside / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(found / name, aside / name)
    return folder


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UserError("The hub needs the package huggingface_hub: pip install 'conceptlens[hf]'.") from None
    return huggingface_hub


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
