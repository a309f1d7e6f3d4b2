"""What is attacked: someone's data, and a finished run on it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.own_data import OwnData, make_own_data


@dataclass(frozen=True)
class World:
    """Everything lies below one folder, which may be thrown away."""

    root: Path
    data: OwnData
    run: Path

    @classmethod
    def make(cls, root: Path) -> "World":
        import conceptlens as cl

        data = make_own_data(root / "data")
        return cls(root, data, cl.train(data.recipe, {"out": str(root / "run")}, quiet=True).path)

    def copy_run(self, name: str) -> Path:
        """A fresh copy of the run, in the place of an earlier one of that name."""
        place = self.root / name
        shutil.rmtree(place, ignore_errors=True)
        return Path(shutil.copytree(self.run, place))
