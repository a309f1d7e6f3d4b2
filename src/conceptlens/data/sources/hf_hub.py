"""`hf:OWNER/NAME`: a data set on the hub, from the Parquet files that the hub keeps of every public data set.

They are downloaded once and kept as Arrow files in the cache, where single images can be read.
"""

import os
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import fingerprint, new_folder, read_json, write_json
from conceptlens.core.network import is_offline
from conceptlens.data.sources.hf import INFO, SPLITS, STATE, hub_features, need_pyarrow

PREFIX = "hf:"
REVISION = "refs/convert/parquet"  # the hub's own branch; it holds no code


def from_hub(source: str) -> Path:
    """The folder of a data set called `hf:OWNER/NAME`, or `…/NAME:PART` if it has several parts."""
    need_pyarrow(source)
    repository, _, part = source.removeprefix(PREFIX).partition(":")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "conceptlens" / "hf"
    last = cache / f"{fingerprint(repository, part)}.json"  # which folder it was when the hub was last asked
    if is_offline():
        return _kept(source, last)
    try:
        commit = str(HfApi().dataset_info(repository, revision=REVISION).sha)
        names = HfApi().list_repo_files(repository, repo_type="dataset", revision=commit)
    except Exception as error:  # the hub's errors come from several HTTP libraries without a common base
        raise _unreachable(source, error) from None
    files: dict[str, dict[str, list[str]]] = {}
    for name in sorted(names):
        pieces = name.split("/")
        if len(pieces) == 3 and name.endswith(".parquet"):
            files.setdefault(pieces[0], {}).setdefault(pieces[1].removeprefix("partial-"), []).append(name)
    part = part or ("default" if "default" in files else next(iter(files), ""))
    if part not in files:
        raise UserError(f"{source}: the hub has no part {part!r} of it as Parquet. {did_you_mean(part, files)}")
    folder = cache / fingerprint(repository, part, commit)
    if not (folder / SPLITS).is_file():
        _keep(source, repository, commit, files[part], folder)
    write_json(last, {"folder": folder.name})
    return folder


def _kept(source: str, last: Path) -> Path:
    """The data set as it was when the hub was last asked; nothing is asked now."""
    name = read_json(last).get("folder") if last.is_file() else None
    if not isinstance(name, str) or not (last.parent / name / SPLITS).is_file():
        raise UserError(
            f"{source}: this run's data is on the hub and not on this machine, and a command on an existing run does "
            "not fetch it by itself. Add --online if you want that, or name other data with --data."
        )
    return last.parent / name


def _keep(source: str, repository: str, commit: str, splits: dict[str, list[str]], folder: Path) -> None:
    """Download a part's files and write them as `save_to_disk` would."""
    with new_folder(folder) as aside:
        for split, names in splits.items():
            try:
                paths = [hf_hub_download(repository, name, repo_type="dataset", revision=commit) for name in names]
            except Exception as error:
                raise _unreachable(source, error) from None
            write_split(paths, aside / split, source)
        write_json(aside / SPLITS, {"splits": list(splits)})


def write_split(paths: list[str], folder: Path, source: str) -> None:
    """Parquet files to one Arrow file, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    try:
        schema = pq.read_schema(paths[0])
        features = hub_features(schema)
        with pa.OSFile(str(folder / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for path in paths:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(1024):
                        writer.write_batch(batch.cast(schema))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{source}: not Parquet that can be read: {str(error).splitlines()[0]}") from None
    if features is None:
        raise UserError(f"{source}: its Parquet files do not say what their columns are.")
    write_json(folder / INFO, {"features": features})
    write_json(folder / STATE, {"_data_files": [{"filename": "data.arrow"}]})


def _unreachable(source: str, error: Exception) -> UserError:
    reason = (str(error).strip() or "no details").splitlines()[0]
    return UserError(
        f"{source}: expected this data set from the hub, but {type(error).__name__}: {reason}. Where the hub cannot be "
        "reached, bring a folder that `Dataset.save_to_disk` wrote, and name the folder as data.source."
    )
