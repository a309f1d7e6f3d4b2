"""Whether the files of a folder are as they were written, and the user's word that a change is meant."""

from dataclasses import dataclass
from pathlib import Path

from conceptlens.core import manifest
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.runs.folder import RunFolder

SHOWN = 20  # names of each kind in a text


@dataclass(frozen=True, repr=False)
class Rehashed(ResultMixin):
    """How a folder differed from its manifest."""

    path: Path
    unverified: bool  # there was no manifest
    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    accepted: bool  # a new manifest was written

    @property
    def has_findings(self) -> bool:
        return self.unverified or bool(self.changed or self.added or self.removed)

    def text(self) -> str:
        if self.unverified:
            lines = [f"{self.path}: unverified, as it has no manifest."]
        else:
            kinds = (("changed", self.changed), ("added", self.added), ("removed", self.removed))
            lines = [f"{kind}: {name}" for kind, names in kinds for name in names[:SHOWN]]
            lines += [f"{kind}: {len(names) - SHOWN} more" for kind, names in kinds if len(names) > SHOWN]
            words = "differs from its manifest" if lines else "every file is as it was written"
            lines.insert(0, f"{self.path}: {words}.")
        if self.accepted:
            lines.append("The files are accepted as they are now.")
        return "\n".join(lines)


def rehash_run(path: str | Path, *, check: bool = False) -> Rehashed:
    """Compare every file with the manifest, by its hash; then write the manifest anew, unless it is only a check."""
    folder = RunFolder.open(path, verify=False).path
    unverified = not manifest.has_manifest(folder)
    try:
        found = manifest.changes(folder, always=True)
    except UserError:  # the manifest itself is damaged
        unverified, found = True, manifest.Changes()
    accept = not check and (unverified or bool(found))
    if accept:
        manifest.rewrite(folder)
    return Rehashed(folder, unverified, found.changed, found.added, found.removed, accept)
