"""`conceptlens intervene` and `conceptlens leakage`: from a run folder to files in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_bytes
from conceptlens.evaluation.figures import intervention_figure, leakage_figure
from conceptlens.evaluation.interventions.counterfactual import THRESHOLD
from conceptlens.evaluation.interventions.measure import Interventions, measure_interventions
from conceptlens.evaluation.interventions.order import POLICIES
from conceptlens.evaluation.interventions.what_if import WhatIf, one_of, read_file, what_if
from conceptlens.evaluation.leakage.leakage import Leakage, measure_leakage
from conceptlens.evaluation.leakage.permuted import TWINS
from conceptlens.runs.folder import RunFolder, check_writable
from conceptlens.runs.readout import open_readout
from conceptlens.stats.estimates import Bootstrap

FOLDER = "trust"
Note = Callable[[str], object]


@dataclass(frozen=True)
class Measured:
    """What was found, and where it is written."""

    found: Interventions | Leakage
    path: Path
    picture: Path

    def text(self) -> str:
        return f"{self.found.text()}\nwritten to {self.path}, drawn in {self.picture}"


def _folder(run: RunFolder, out: str | Path | None) -> Path:
    folder = Path(out) if out else run.path / FOLDER
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, found a file. Choose another one with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)
    return folder


def _write(found: Interventions | Leakage, picture: bytes, folder: Path, name: str) -> Measured:
    path, drawn = folder / f"{name}.json", folder / f"{name}.png"
    found.write(path)
    write_bytes(drawn, picture)
    return Measured(found, path, drawn)


def intervene_run(
    path: str | Path,
    *,
    split: str = "test",
    by: str = "groups",
    to: str = "quantile",
    orders: Sequence[str] = POLICIES,
    classes: Sequence[str] | None = None,
    on: Sequence[str] | None = None,
    instead: str | None = None,
    threshold: float = THRESHOLD,
    resamples: int = 1000,
    out: str | Path | None = None,
    note: Note = lambda text: None,
) -> Measured:
    """Correct concepts of a run's images, in several orders, and see what the class head makes of it."""
    run = RunFolder.open(path)
    readout = open_readout(path, split)
    folder = _folder(run, out)
    found = measure_interventions(
        readout,
        Bootstrap(readout.units, resamples),
        run=run.path.name,
        split=split,
        by=by,
        to=to,
        orders=orders,
        classes=classes,
        on=on,
        instead=instead,
        threshold=threshold,
        note=note,
    )
    return _write(found, intervention_figure(found), folder, "interventions")


def leakage_run(
    path: str | Path,
    *,
    split: str = "test",
    resamples: int = 1000,
    twins: int = TWINS,
    out: str | Path | None = None,
    note: Note = lambda text: None,
) -> Measured:
    """Whether a run's concepts carry more of the class than their names say."""
    run = RunFolder.open(path)
    readout = open_readout(path, split)
    folder = _folder(run, out)
    bootstrap = Bootstrap(readout.units, resamples)
    found = measure_leakage(readout, bootstrap, run=run.path.name, split=split, twins=twins, note=note)
    return _write(found, leakage_figure(found), folder, "leakage")


def what_if_run(path: str | Path, image: str | Path, edits: Sequence[str] = (), *, split: str = "test") -> WhatIf:
    """One image with some concepts set by hand: an image of the split by its name, or any file."""
    run, readout = RunFolder.open(path), open_readout(path, split)
    one = one_of(readout, str(image))
    if one is None:
        if not Path(image).is_file():
            raise UserError(f"{image}: neither an image file nor the name of one of the run's {split} images.")
        one = read_file(run.path, Path(image))
    return what_if(readout, one, edits)
