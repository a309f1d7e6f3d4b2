"""A finished comparison without training: two data sets, two blocks, a control, a bypass, and a zero-shot line."""

from pathlib import Path

from conceptlens.core.files import read_json, write_json
from conceptlens.workflows.compare.compare import compare
from tests.workflows.compare.fakes import comparison_file, finish, jobs_of

ROWS = {
    "good": {"random_text": True},
    "poor": {"set": {"regularizer": "l2"}, "random_text": False},
    "told": {"set": {"training.clip": 2.0}, "random_text": False, "supervision": "text"},
}
QUALITY = {"good": 2.5, "poor": 0.3, "good (random text)": 0.3, "told": 3.5}
SHAPES = {"source": "shapes", "shapes": {"n": 48, "size": 32}}
BEFORE = {"encoder": "builtin/vit", "text": "builtin/text", "auc": 0.625, "auc_within_class": 0.5625}


def make_comparison(folder: Path, out: str = "compared") -> Path:
    """The folder `out`, as `conceptlens compare` leaves it."""
    data = {"shapes": SHAPES, "fewer shapes": SHAPES | {"shapes": {"n": 40, "size": 32}}}
    file = comparison_file(folder, name="three ways", recipes=ROWS, data=data)
    jobs, places = jobs_of(file, folder / out)
    for job in jobs:
        bypass = "a residual" if job.cell.entry.name == "poor" else None
        finish(job, places, quality=QUALITY[job.cell.entry.name], n=80, bypass=bypass)
    made = compare(file, out=folder / out, quiet=True).out
    found = read_json(made / "results.json")
    found["data"][0]["zero_shot"] = [BEFORE]  # the drawn shapes' encoder has no text space of its own
    write_json(made / "results.json", found)
    file.unlink()
    return made
