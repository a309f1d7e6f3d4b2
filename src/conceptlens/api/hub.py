"""Models on a hub: publish a run, fetch one."""

from pathlib import Path
from typing import TYPE_CHECKING

from conceptlens.core.documents import TextResult

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun


def push(
    run: "str | Path | OpenedRun",
    repository: str,
    *,
    public: bool = False,
    license: str | None = None,
    message: str | None = None,
) -> TextResult:
    """Publish a run on a model hub; needs the extra `hf` and a login (`hf auth login`).

    Weights, recipe, concepts, measured results and a model card are published; no image, no name of one and no path.

    Args:
        run: The run folder.
        repository: USER/NAME; is made if it does not exist.
        public: Make a new repository public.
        license: License of the weights, in the hub's abbreviation: apache-2.0, cc-by-4.0.
        message: Message of the commit.

    >>> import conceptlens as cl
    >>> cl.push(run, "lab/cells", license="cc-by-4.0")  # doctest: +SKIP
    """
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.workflows.hub.transfer import push_run

    address = push_run(OpenedRun.open(run), repository, private=not public, license=license, message=message)
    return TextResult(f"published: {address}\nconceptlens pull {repository} brings it to another machine")


def pull(repository: str, *, out: str | Path | None = None) -> Path:
    """Fetch a published model from a hub as a run folder; needs the extra `hf`.

    Args:
        repository: USER/NAME, or USER/NAME@REVISION.
        out: The run folder; `runs/NAME` by default.

    >>> import conceptlens as cl
    >>> cl.pull("lab/cells")  # doctest: +SKIP
    """
    from conceptlens.workflows.hub.transfer import pull_run

    return pull_run(repository, out)
