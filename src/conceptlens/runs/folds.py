"""The folds of a cross-validated run: whole runs in its folder `folds`."""

from pathlib import Path

FOLDS = "folds"  # the folder, and what `metrics.json` and kept predictions call the test images of all folds


def fold_folders(run: Path) -> list[Path]:
    """The folders of its folds in order; none for a run that was not cross-validated."""
    folder = run / FOLDS
    found = [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return sorted(found, key=lambda path: int(path.name))
