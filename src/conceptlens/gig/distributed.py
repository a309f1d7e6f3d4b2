"""A decomposition by several processes of an engine, on this machine or on others with the same file system.

On this machine each process has a GPU of its own, where there are several.

Each process computes the model's outputs and the samples for its share of the images. Then the layers are clustered in
parallel. Random draws depend on seed, image and layer alone, so the samples are the same as with one process. A file is
written whole or not at all, and one that exists is not computed again: a run that was stopped can go on with more or
fewer processes.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from safetensors.torch import save, save_file
from torch import Tensor

from conceptlens.core.engines import Engine, Task
from conceptlens.core.engines.workers import exit_code, run_tasks
from conceptlens.core.files import write_bytes
from conceptlens.core.network import is_offline
from conceptlens.gig.held_out import held_out_file, read_held_out
from conceptlens.gig.samples import Samples, collect, shards_of
from conceptlens.gig.settings import Settings
from conceptlens.gig.work import Outputs, Work, check_predictions, find_concepts, layer_file, read_predictions

FOLDER = "jobs"


def decompose_in_processes(run: Path, work: Work, processes: int, workers: int, engine: Engine) -> None:
    """Compute outputs, samples and concepts of a run whose folder and settings exist."""
    outputs = run / "outputs.safetensors"
    common = {"run": str(run.absolute()), "batch_size": work.batch_size, "workers": workers, "local": is_offline()}
    missing = [layer for layer in work.network.layers if not layer_file(run, layer).exists()]
    if outputs.exists() and not missing:
        return
    parts = [(k, processes) for k in range(processes)]
    images = [Task(f"images {k + 1} of {n}", _IMAGES, {**common, "part": [k, n]}) for k, n in parts]
    run_tasks(images, engine, work.note)
    if not outputs.exists():
        whole = Outputs(work, range(len(work.gallery)))
        for part in parts:
            mine = _share_of(work, part)
            whole.add(mine, read_predictions(_share_file(run, *part), work, len(mine)))
        write_bytes(outputs, save({"outputs": check_predictions(work, whole.whole())}))
    held_out_file(work, run, read_predictions(outputs, work, len(work.gallery)))
    run_tasks([Task(layer, _LAYER, {**common, "layer": layer}) for layer in missing], engine, work.note)
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def do_images(run: str, part: Sequence[int], batch_size: int, workers: int, local: bool) -> int:
    """Outputs and samples of a share of the images; 0, or 1 where something is wrong."""
    return exit_code(lambda: _do_images(Path(run), part[0], part[1], batch_size, workers), local=local)


def _do_images(run: Path, k: int, parts: int, batch_size: int, workers: int) -> None:
    work, file = _open(str(run), batch_size, workers), _share_file(run, k, parts)
    outputs = Outputs(work, _share_of(work, (k, parts)))
    _samples(work, run, (k, parts), outputs.add)
    if not (run / "outputs.safetensors").exists() and not file.exists():
        file.parent.mkdir(exist_ok=True)
        half = file.with_suffix(".half")  # not by `write_bytes`: the manifest would list a file that is removed later
        save_file({"outputs": outputs.whole()}, half)
        os.replace(half, file)


def do_layer(run: str, layer: str, batch_size: int, workers: int, local: bool) -> int:
    """Concepts of a layer whose samples are there; 0, or 1 where something is wrong."""

    def cluster() -> None:
        work = _open(run, batch_size, workers)
        taken = _samples(work, Path(run), (0, 1))[layer].without(read_held_out(Path(run)).numbers)
        find_concepts(work, layer, taken).write(layer_file(Path(run), layer))

    return exit_code(cluster, local=local)


_IMAGES, _LAYER = f"{__name__}:do_images", f"{__name__}:do_layer"


def _samples(
    work: Work,
    run: Path,
    share: tuple[int, int],
    seen: Callable[[list[int], Tensor], object] = lambda some, values: None,
) -> dict[str, Samples]:
    s = work.settings
    return collect(
        *(work.network, work.gallery, run / "samples", s.per_image, s.rule, s.seed),
        share=share,
        batch=work.batch_size,
        seen=seen,
    )


def _share_of(work: Work, share: tuple[int, int]) -> list[int]:
    """The images of a process."""
    return [number for shard in shards_of(len(work.gallery), share) for number in shard]


def _share_file(run: Path, k: int, parts: int) -> Path:
    return run / FOLDER / f"outputs-{k}-of-{parts}.safetensors"


@lru_cache(maxsize=1)
def _open(run: str, batch_size: int, workers: int) -> Work:
    """The model and the images; what code may run came with the task."""
    settings = Settings.read(Path(run) / "settings.json")
    return Work.open(settings, lambda text: None, True, None, None, batch_size, workers)
