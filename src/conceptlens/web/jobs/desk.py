"""What the server knows of jobs: the forms, the queue, the devices; and from a filled form to a job."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_yaml
from conceptlens.recipes.parse import recipe_code
from conceptlens.reports.material import value_of
from conceptlens.web.jobs.forms import RECIPE, Form, Functions, run_name, settings_words
from conceptlens.web.jobs.scheduler import Scheduler
from conceptlens.web.jobs.store import Job, JobStore, queue_folder
from conceptlens.web.server.folders import RunEntry

TRAIN = "train"


@dataclass(frozen=True)
class Request:
    """A filled form."""

    command: str
    entry: RunEntry | None  # the run that it is about; of `train`, the run whose recipe is trained again
    recipe: str | None  # of `train`: a ready recipe
    name: str | None  # of `train`: the new run folder
    values: Mapping[str, Any]
    settings: Sequence[str]
    device: str


class JobDesk:
    """Takes jobs and tells of them."""

    def __init__(self, root: Path, functions: Functions, recipes: Sequence[str], *, allowed: bool) -> None:
        """`root`: the served folder that new runs go to; `recipes`: ready ones that `train` may name."""
        self.root, self.allowed, self.recipes = root, allowed, list(recipes)
        self.forms = {command: Form.of(command, function) for command, function in functions.items()}
        self.store = JobStore(queue_folder(root))
        self.scheduler = Scheduler(self.store) if allowed else None

    @asynccontextmanager
    async def open(self, app: object) -> AsyncIterator[None]:
        """Start waiting jobs as long as the server runs; those that run outlive it."""
        if self.scheduler:
            self.scheduler.start()
        yield
        if self.scheduler:
            self.scheduler.stop()

    @property
    def devices(self) -> list[str]:
        return [*(f"cuda:{index}" for index in range(torch.cuda.device_count())), "cpu"]

    def words(self, request: Request) -> list[str]:
        """The words of the command, checked."""
        if request.command not in self.forms:
            raise unknown_name("command", request.command, self.forms)
        form = self.forms[request.command]
        options = form.words(request.values)
        if request.command == TRAIN:
            out = self.root / run_name(request.name or "")
            if out.exists():
                raise UserError(f"{out.name}: there is such a run already. Choose another name.")
            return [TRAIN, *self._recipe(request), *settings_words(request.settings), *options, f"--out={out}"]
        if request.settings:
            raise UserError(f"{request.command} takes no settings of a recipe.")
        if form.needs_run and request.entry is None:
            raise UserError(f"{request.command}: choose a run.")
        return [request.command, *([str(request.entry.path)] if request.entry else []), *options]

    def submit(self, request: Request) -> Job:
        """Put it into the queue."""
        if request.device not in self.devices:
            raise unknown_name("device", request.device, self.devices)
        words = self.words(request)
        shown = request.name if request.command == TRAIN else request.entry.shown if request.entry else None
        own = words[1] if request.command == TRAIN and request.entry else None
        job = self.store.add(request.command, words, request.device, shown, unchanged=own)
        if self.scheduler:
            self.scheduler.wake()
        return job

    def _recipe(self, request: Request) -> list[str]:
        """The recipe that is trained, and what of it is set otherwise."""
        if request.entry is None:
            if request.recipe not in self.recipes:
                raise unknown_name(RECIPE, request.recipe or "", self.recipes)
            return [str(request.recipe)]
        path = request.entry.file("recipe.yaml")
        if path is None:
            raise UserError(f"{request.entry.shown}: this folder has no recipe.")
        recipe = read_yaml(path)
        if recipe_code(recipe):  # a stranger's folder may name code, which would be trusted as the user's own
            raise UserError(f"{request.entry.shown}: its recipe names code of its own. Train it from the command line.")
        store = value_of(recipe, "encoder.store")
        if store in (None, "run") or Path(str(store)).resolve().is_relative_to(self.root):
            return [str(path)]
        return [str(path), "--encoder.store=run"]  # a stranger's folder may name any place for tokens to be written to
