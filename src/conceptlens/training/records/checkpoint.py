"""State for `resume`: safetensors and JSON in folders that appear whole or not at all; the last two are kept.

Nothing is pickled: a state from a stranger cannot run code.
"""

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from safetensors.torch import save as serialize
from torch import Tensor, nn
from torch.optim import Optimizer

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import new_folder, read_json, remove_leftovers, write_bytes, write_json
from conceptlens.core.upgrades import upgrade_parameters

KEEP = 2


@dataclass
class Position:
    """Where training stands."""

    stage: int = 0
    epoch: int = 0  # of the stage
    step: int = 0  # of the epoch: batches already taken
    total_epochs: int = 0
    total_steps: int = 0
    history_bytes: int = 0
    best_value: float | None = None  # of this stage
    best_tie: float = 0.0  # what decides between equal values, there
    best_epoch: int = -1
    best_file: str | None = None
    epochs_without_gain: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of the running epoch
    seconds: float = 0.0
    concepts: str = ""  # the concept file of what a method chose; it gives the weights their shapes
    dropped: dict[str, str] = field(default_factory=dict)  # concept → why the method left it out


def optimizer_tensors(pipeline: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """AdamW's moments by parameter name."""
    names = {id(parameter): name for name, parameter in pipeline.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(pipeline: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    for name, parameter in pipeline.named_parameters():
        state = {key.rpartition("/")[2]: value for key, value in tensors.items() if key.rpartition("/")[0] == name}
        if state:
            # The fused step counts where its parameters are: `step` goes along with the moments.
            optimizer.state[parameter] = {key: value.to(parameter.device).clone() for key, value in state.items()}


def random_tensors() -> dict[str, Tensor]:
    """The state of torch's generators; everything else draws from (seed, epoch, step)."""
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["cuda"] = torch.cuda.get_rng_state()
    return tensors


def restore_random(tensors: dict[str, Tensor]) -> None:
    torch.set_rng_state(tensors["cpu"])
    if "cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["cuda"])


def contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


class StateFolder:
    """`state/` of a run."""

    def __init__(self, run: Path) -> None:
        self.path = run / "state"

    def save(self, position: Position, tensors: dict[str, dict[str, Tensor]]) -> None:
        """Write the next state aside, rename it, then drop what is older than the last two."""
        name = f"{position.total_steps:09d}-{position.total_epochs:05d}"
        self._begin()
        with new_folder(self.path / name) as folder:
            for part, values in tensors.items():
                save_file(contiguous(values), folder / f"{part}.safetensors")
            write_json(folder / "position.json", asdict(position))
        kept = self.states()[-KEEP:]
        for old in self.states()[:-KEEP]:
            shutil.rmtree(old)
        wanted = {read_json(state / "position.json").get("best_file") for state in kept}
        for file in self.path.glob("best-*.safetensors"):
            if file.name not in wanted:
                file.unlink()

    def save_best(self, position: Position, tensors: dict[str, Tensor]) -> str:
        """The weights chosen so far, in a file of their own: a state names the one it belongs to."""
        name = f"best-{position.total_steps:09d}.safetensors"
        self._begin()
        write_bytes(self.path / name, serialize(contiguous(tensors)))
        return name

    def _begin(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        manifest.begin(self.path)

    def states(self) -> list[Path]:
        return sorted(path for path in self.path.glob("[0-9]*") if path.is_dir())

    def load(self) -> tuple[Position, dict[str, dict[str, Tensor]]] | None:
        """The newest state that is whole, or None if training had not come so far."""
        if not self.path.exists():
            return None
        remove_leftovers(self.path)
        problem = None
        for state in reversed(self.states()):
            try:
                raw: dict[str, Any] = read_json(state / "position.json")
                raw.pop("schema", None)
                position = Position(**raw)
                best = [self.path / str(position.best_file)] if position.best_file else []
                for file in (*state.iterdir(), *best):  # a state may have rotted in its place: hashes, not times
                    manifest.check(file, always=True)
                tensors = {file.stem: upgrade_parameters(load_file(file)) for file in state.glob("*.safetensors")}
                if absent := sorted({"pipeline", "optimizer", "random"} - set(tensors)):
                    raise ValueError(f"{absent[0]}.safetensors is missing")
                return position, tensors
            except (UserError, TypeError, ValueError, OSError, SafetensorError) as error:
                problem = problem or f"{state}: this state is damaged ({error})"
        if problem:
            raise UserError(f"{problem}, and there is no older one that is whole. Train the run again.")
        return None

    def load_best(self, position: Position) -> dict[str, Tensor] | None:
        if not position.best_file:
            return None
        try:
            return upgrade_parameters(load_file(self.path / position.best_file))
        except (OSError, SafetensorError) as error:
            raise UserError(
                f"{self.path / position.best_file}: the weights chosen so far cannot be read ({error}). "
                "Train the run again."
            ) from None

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
