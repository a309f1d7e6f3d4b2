"""Keeping run folders: what changed in one, and one of an earlier version as this version writes it."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conceptlens.runs.migrate import Migrated
    from conceptlens.runs.rehash import Rehashed


def rehash(run: str | Path, *, check: bool = False) -> "Rehashed":
    """List the files of a run that changed since they were written, and accept them as they are now.

    Every command refuses a file of a run that was edited or damaged. After an edit of your own, this makes a new
    manifest. A run without a manifest, as version 0.1 wrote it, gets one.

    Args:
        run: The run folder, or another folder with a run.json.
        check: List the files only.

    >>> import conceptlens as cl
    >>> cl.rehash(run, check=True).text()
    '...'
    """
    from conceptlens.runs.rehash import rehash_run

    return rehash_run(run, check=check)


def migrate(run: str | Path) -> "Migrated":
    """Write the files of an earlier version's run as this version writes them; numbers do not change.

    Runs of earlier versions can be read without this; it only saves the upgrade. Earlier versions cannot
    read the run afterwards: copy the folder first if they must.

    Args:
        run: The run folder.

    >>> import conceptlens as cl
    >>> cl.migrate(run).text()
    "run: every file is of this version's schema (...)."
    """
    from conceptlens.runs.migrate import migrate_run

    return migrate_run(run)
