"""`conceptlens share RUN FILE.html`: gather, fit into the limit, write."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.core.version import __version__
from conceptlens.evaluation.examination import Trust
from conceptlens.pages.markup import Html
from conceptlens.reports.thumbnails import CREDITS
from conceptlens.reports.verdicts import verdict_block
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.verdicts import FILE as TRUST
from conceptlens.web.server.problems import Problem
from conceptlens.web.share.clean import without_paths
from conceptlens.web.share.fit import fit
from conceptlens.web.share.gather import Gathered, Say, gather
from conceptlens.web.share.in_process import Inside, open_inside
from conceptlens.web.share.note import Note

IMAGES = 200
LIMIT = 15_000_000  # bytes of the file; mail servers take 20 to 25 MB


@dataclass(frozen=True)
class Shared:
    """A file that was written."""

    file: Path
    bytes: int
    note: Note

    def text(self) -> str:
        images = f", {self.note.images} of {self.note.of} {self.note.split} images" if self.note.images else ""
        lines = [f"written: {self.file} ({self.bytes / 1e6:.1f} MB: {', '.join(self.note.views)}{images})"]
        return "\n".join([*lines, *(f"  {each}" for each in self.note.notes)])


def share_run(
    run: str | Path,
    file: str | Path,
    *,
    views: Sequence[str] | None = None,
    images: int = IMAGES,
    limit: int = LIMIT,
    say: Say = lambda text: None,
) -> Shared:
    """Write views of a finished run as one HTML file that opens without a server.

    Args:
        run: The run folder, or that of a decomposition, a codebook study or a comparison.
        file: Where to; it is replaced.
        views: Of `conceptlens.web.share.plan.SHARED`; all that have something to show if None.
        images: At most so many example images.
        limit: Of the file, in bytes. Pictures become smaller, then fewer, until it fits.
        say: Called with the progress in words.

    Raises:
        UserError: The run is not done, a view cannot be shown, or nothing fits into the limit.
    """
    folder, out = RunFolder.open(run), Path(file)
    if out.suffix.lower() not in (".html", ".htm") or out.is_dir():
        raise UserError(f"{out}: expected the name of an HTML file, such as {folder.path.resolve().name}.html.")
    if images < 1:
        raise UserError(f"--n: expected at least 1, found {images}.")
    status = folder.info.get("status")
    if status != "done":
        raise UserError(f"{folder.path}: this run is not done ({status}). Finish it with {folder.how_to_go_on}.")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a stranger's run may name data on a hub: nothing is fetched
    try:
        with open_inside(folder.path) as inside:
            found = gather(inside, views, images, say)
            text, note = fit(inside, found, _note(inside, found), limit)
    except Problem as problem:
        raise UserError(problem.message) from None
    write_text(out, text)
    return Shared(out, len(text.encode()), note)


def _note(inside: Inside, found: Gathered) -> Note:
    card = found.answers[inside.run].body["card"]
    return Note(
        run=without_paths(card["name"]),
        method=card["method"],
        data=without_paths(card["data"]) if card["data"] else None,
        version=__version__,
        made=datetime.now(UTC).strftime("%d %B %Y"),
        views=found.views,
        credit=CREDITS.get(str(card["data"])),
        notes=[without_paths(each) for each in found.notes],
        verdicts=_verdicts(inside) if card["kind"] == "bottleneck" else None,
    )


def _verdicts(inside: Inside) -> Html:
    path = inside.entry.file(TRUST)
    return verdict_block(Trust.read(path) if path else None, without_paths)
