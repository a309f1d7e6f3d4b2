"""The run folder of a codebook study: a model, samples of its tokens, and an extractor trained on them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.devices import best_device
from conceptlens.core.documents import ResultMixin
from conceptlens.core.engines.workers import IN_PROCESS, Workers
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import write_json
from conceptlens.core.network import offline
from conceptlens.core.plugins import check_code, is_code, parse_code
from conceptlens.core.progress import Note
from conceptlens.cortex.distributed import draw_chunks, encode_in_chunks, encode_rows, model_arguments, read_square
from conceptlens.cortex.extractors.trained import InformationExtractor, codebook_hash
from conceptlens.cortex.extractors.training import Epoch, ExtractorTraining, train_extractor
from conceptlens.cortex.generators.condition import Condition, parse_condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import BUILTIN, open_model
from conceptlens.cortex.generators.settings import AS_USUAL, NOTHING_TOLD, CheckpointOptions, Sampling
from conceptlens.cortex.samples import SPLITS, Generated, Samples, split_samples
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.open import open_source
from conceptlens.encoders.freezing import weights_hash
from conceptlens.recipes.schema import DataConfig
from conceptlens.runs.folder import RunFolder, check_writable

KIND, FOLDER = "codebook", "codebook"
MEMORY = "memory"  # in the place of a name, where the model was an object


@dataclass(frozen=True, repr=False)
class Study(ResultMixin):
    """An opened run of kind `codebook`."""

    run: RunFolder
    model: VQModel
    extractor: InformationExtractor
    samples: Mapping[str, Samples]  # train, val, test
    conditions: Mapping[str, Condition]  # of each concept; empty where samples were encoded
    device: torch.device

    @property
    def codebook(self) -> Tensor:
        return self.model.codebook.detach()

    def text(self) -> str:
        """How accurate the extractor is, and where the study is."""
        card = self.extractor.card
        accuracy = ", ".join(f"{name} {value:.3f}" for name, value in card.accuracy.items())
        return f"{card.network} over {len(card.concepts)} concepts: {accuracy}\nwritten to {self.run.path}"

    def to_dict(self) -> dict[str, Any]:
        card = self.extractor.card
        return {
            "path": str(self.run.path),
            "model": self.model.name,
            "network": card.network,
            "concepts": list(card.concepts),
            "accuracy": dict(card.accuracy),
            "samples": {split: len(samples) for split, samples in self.samples.items()},
        }

    def folder(self, out: str | Path | None = None) -> Path:
        """Where results go."""
        folder = Path(out) if out else self.run.path / FOLDER
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: expected a folder, found a file. Choose another one with --out.")
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        return folder

    def embed(self, tokens: Tensor) -> Tensor:
        return self.model.embed(tokens.to(self.device)).detach()

    def pictures(self, split: str, places: Sequence[int]) -> Tensor | None:
        """Images (n, 3, H, W) on the CPU of samples of a split: painted, else what they were encoded from.

        None where the model has no decoder and the data is not there any more, or is not the same.
        """
        samples, about = self.samples[split], self.run.info["data"]
        if self.model.decodes:
            return self.decode(samples.tokens[list(places)].long())
        if samples.rows is None:
            return None
        try:
            with offline():
                source, _ = open_data(about["source"], about["concepts"])
        except UserError:
            return None
        if source.examples.fingerprint != about["hash"]:
            return None
        rows = samples.rows[list(places)].tolist()
        return torch.from_numpy(read_square(source, rows, self.model.image_size)).float().div_(255)

    @torch.no_grad()
    def decode(self, tokens: Tensor, batch: int = 64) -> Tensor:
        """Images (n, 3, H, W) on the CPU."""
        return torch.cat([self.model.decode(part.to(self.device)).cpu() for part in torch.split(tokens, batch)])


def new_study(
    model_name: str | Path | VQModel,
    out: str | Path,
    *,
    concepts: Sequence[str] | None = None,
    data: str | None = None,
    data_concepts: str | None = None,
    by: str | None = None,
    network: str = "CE",
    per_concept: int = 1000,
    image_size: int | None = None,
    checkpoint: CheckpointOptions = NOTHING_TOLD,
    sampling: Sampling = AS_USUAL,
    training: ExtractorTraining | None = None,
    seed: int = 0,
    overwrite: bool = False,
    options: Mapping[str, int | float | str] | None = None,
    chunk: int = 32,
    device: torch.device | None = None,
    workers: Workers = IN_PROCESS,
    note: Note = lambda text: None,
) -> Study:
    """Sample a model's tokens, train an extractor on them, and write both as a run.

    Samples are kept as they are drawn: the same call on a study that was stopped goes on with them.

    Args:
        model_name: As for `open_model`, or a `VQModel`.
        out: The run folder.
        concepts: What the extractor distinguishes, as conditions in words; all classes by default. Of encoded data:
            classes or values to keep.
        data: Images to encode, for models that do not generate (or to study real images): as in a recipe.
        data_concepts: The concept file of the data.
        by: A concept group of the data whose values are the concepts, instead of its classes.
        network: CE, RE or TE.
        per_concept: Samples of each concept; encoded images are all taken up to this number.
        image_size: Of a VQGAN's images.
        checkpoint: What a published checkpoint does not say of itself.
        sampling: How tokens are drawn.
        training: Of the extractor.
        seed: Random seed.
        overwrite: Replace a run that is in the way.
        options: Of the network, such as `filters`.
        chunk: Samples of a concept made at once; others for another number, as likely.
        device: Where the work is done; a GPU where there is one, if not named.
        workers: Which processes draw or encode the samples; the samples are the same.
        note: Called with progress messages.
    """
    shared = None if workers.in_process else model_arguments(model_name, image_size, checkpoint, sampling)
    device = device or best_device()
    model = open_model(model_name, image_size=image_size, checkpoint=checkpoint, sampling=sampling).to(device)
    conditions: dict[str, Condition] = {}
    if data is None:
        if not model.generates:
            raise UserError(f"{model.name} does not generate: name images to encode with --data.")
        named = list(concepts or model.classes)
        conditions = {word: parse_condition(word, model.classes, model.attributes) for word in named}
    elif by is None and concepts is None:
        named = []
    else:
        named = list(concepts or [])
    about: dict[str, Any] = {
        "id": Path(out).name,
        "kind": KIND,
        "method": "cortex",
        "status": "running",
        "model": {
            "name": _name_of(model_name),
            "image_size": image_size,
            "codebook": codebook_hash(model.codebook),
            "checkpoint": _absolute(checkpoint),
            "sampling": asdict(model.sampling),
        },
        "data": {
            "source": data or "generated",
            "seed": seed,
            "per_concept": per_concept,
            "by": by,
            "concepts": data_concepts,
        },
        "conditions": {name: condition.text() for name, condition in conditions.items()},
    }
    with _begin(out, about, overwrite) as run:
        write_json(run.path / "run.json", about)
        run.write_environment()
        try:
            if data is None:
                note(f"{len(conditions)} concepts × {per_concept} samples of {model.name}")
                stream = Generated(model, conditions, per_concept, seed=seed, chunk=chunk, place=run.path)
                if shared:
                    draw_chunks(stream, shared, run.path, workers, note)
                samples = _generate(stream, note)
            else:
                source, vocabulary = open_data(data, data_concepts)
                run.update(data={**about["data"], "hash": source.examples.fingerprint})

                encode = None
                if shared:
                    words = f"{weights_hash(model)} {source.examples.fingerprint}"
                    encode = partial(encode_in_chunks, shared, (data, data_concepts), run.path, words, workers, note)
                samples = encoded_samples(model, source, vocabulary, by, named, per_concept, seed, encode)
            parts = split_samples(samples, seed=seed)
            for name, part in parts.items():
                part.save(run.path / "samples" / f"{name}.safetensors")
            if data is None:
                stream.kept.clear()
            extractor = new_extractor(model, samples.concepts, network, options or {}, seed)
            settings = training or ExtractorTraining()

            def epoch(done: Epoch) -> None:
                lines = [{"epoch": done.epoch, "split": "train", "loss": done.loss, "accuracy": done.accuracy}]
                if done.validation_loss is not None:
                    lines.append({"epoch": done.epoch, "split": "val", "loss": done.validation_loss})
                with run.history.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)
                note(f"{network}: epoch {done.epoch + 1} of {settings.epochs}, loss {done.loss:.3f}")

            torch.manual_seed(seed)
            extractor = extractor.to(device)
            codebook = model.codebook.detach()
            train_extractor(
                extractor,
                codebook,
                parts["train"],
                validation=parts["val"],
                test=parts["test"],
                settings=settings,
                seed=seed,
                note=epoch,
            )
            extractor.save(run.path / "extractor")
            metrics = {"splits": {"test": {"extractor": dict(extractor.card.accuracy)}}}
            write_json(run.path / "metrics.json", metrics)
            run.update(status="done", extractor={"network": network, **asdict(settings)})
        except BaseException as error:
            run.update(status="failed", reason=f"{type(error).__name__}: {error}")
            raise
        return Study(run, model, extractor, parts, conditions, device)


def new_extractor(
    model: VQModel, concepts: Sequence[str], network: str, options: Mapping[str, Any], seed: int
) -> InformationExtractor:
    """One whose first weights follow from the seed, wherever torch's generator stands."""
    torch.manual_seed(seed)
    return InformationExtractor.make(network, model.codebook, model.grid, concepts, **options)


def _name_of(model_name: str | Path | VQModel) -> str:
    """What `run.json` calls a model: a file by its whole path, code by that of its file."""
    if not isinstance(model_name, str | Path):
        return MEMORY
    word = str(model_name)
    if word == BUILTIN:
        return word
    return str(parse_code(word)) if is_code(word) else str(Path(word).expanduser().resolve())


def _absolute(checkpoint: CheckpointOptions) -> dict[str, Any]:
    """The options with whole paths."""
    values = asdict(checkpoint)
    for option in ("transformer", "config"):
        if values[option] is not None:
            values[option] = str(Path(values[option]).expanduser().resolve())
    return values


@contextmanager
def _begin(out: str | Path, about: Mapping[str, Any], overwrite: bool) -> Iterator[RunFolder]:
    """The folder of a new study, or of one that was stopped and has the same settings."""
    run = RunFolder(Path(out))
    if overwrite or not (run.path / "run.json").exists():
        with RunFolder.create(out, overwrite=overwrite) as created:
            yield created
        return
    info = run.info
    if info.get("kind") != KIND or info["status"] == "done":
        what = "study" if info.get("kind") == KIND else "run"
        raise UserError(
            f"{run.path}: a {what} is here already ({info['status']}). Choose another folder with --out, or replace it "
            "with --overwrite."
        )
    before = {**info["data"]}
    before.pop("hash", None)
    if (info["model"], before, info["conditions"]) != (about["model"], about["data"], about["conditions"]):
        raise UserError(
            f"{run.path}: a study was begun here with another model, other concepts or other settings. Give the same "
            "to go on with it, choose another folder with --out, or replace it with --overwrite."
        )
    with run.lock():
        run.clean()
        run.history.unlink(missing_ok=True)
        yield run


def _generate(stream: Generated, note: Note) -> Samples:
    for index in range(stream.chunks):
        stream.chunk(index)
        done = min((index + 1) * stream.size, stream.per_concept)
        note(f"samples: {done} of {stream.per_concept} of each concept")
    return stream.all()


def open_data(data: str, concepts: str | None) -> tuple[DataSource, ConceptSet]:
    """Images to encode."""
    return open_source(DataConfig(data), ConceptSet.load(concepts) if concepts else None)


def encoded_samples(
    model: VQModel,
    source: DataSource,
    vocabulary: ConceptSet,
    by: str | None,
    keep: Sequence[str],
    per_concept: int,
    seed: int,
    encode: Callable[[Sequence[int]], Tensor] | None = None,
) -> Samples:
    """Tokens of images, with their class or their value of a group as the concept.

    `encode`: another way from rows to tokens.
    """
    if by is None:
        if source.task == "multilabel":
            raise UserError(f"{source.name}: images have several classes; choose a concept group with --by.")
        names, labels = list(source.classes), source.examples.labels.copy()
    else:
        groups = {group.name: group for group in vocabulary.groups}
        if by not in groups:
            raise unknown_name("concept group", by, groups)
        values = source.examples.concepts[:, groups[by].concepts]
        names, labels = list(groups[by].values), np.where(values.max(1) == 1, values.argmax(1), -1)
    for word in keep:
        if word not in names:
            raise unknown_name("concept", word, names)
    chosen = list(keep) or names
    rng = np.random.default_rng(seed)
    rows: list[int] = []
    concept: list[int] = []
    for place, name in enumerate(chosen):
        mine = rng.permutation(np.flatnonzero(labels == names.index(name)))[:per_concept]
        rows += [int(row) for row in mine]
        concept += [place] * len(mine)
    if not rows:
        raise UserError(f"{source.name}: no image shows {', '.join(chosen)}.")
    tokens = encode(rows) if encode else encode_rows(model, source, rows)
    return Samples(tokens, torch.as_tensor(concept), tuple(chosen), torch.as_tensor(rows))


def open_study(path: str | Path, *, device: torch.device | None = None, model: VQModel | None = None) -> Study:
    """A finished study; on a GPU where there is one, unless a device is named.

    Args:
        path: Its folder.
        device: Where the work is done.
        model: The model, for a study of one that was in memory; it must have the same codebook.
    """
    run = RunFolder.open(path)
    info: dict[str, Any] = run.info
    if info.get("kind") != KIND:
        raise UserError(
            f"{run.path}: expected a codebook study, found a run of kind {info.get('kind')!r}. Make one with "
            f"`conceptlens codebook extract {run.path} --data …`."
        )
    if info["status"] != "done":
        raise UserError(f"{run.path}: this study is not finished ({info['status']}). Make it again with --overwrite.")
    device = device or best_device()
    about = info["model"]
    if model is None and about["name"] == MEMORY:
        raise UserError(
            f"{run.path}: the model of this study was an object in Python, which is not saved. Pass it again: "
            f"conceptlens.cortex.load({str(run.path)!r}, model=…)."
        )
    if model is None and is_code(about["name"]):
        check_code([about["name"]], run.path)
    model = open_model(
        model or about["name"],
        image_size=about.get("image_size"),
        checkpoint=CheckpointOptions(**about.get("checkpoint", {})),
        sampling=AS_USUAL if model else Sampling(**about.get("sampling", {})),
        user=False,
    ).to(device)
    extractor = InformationExtractor.load(run.path / "extractor").to(device)
    extractor.check_codebook(model.codebook)
    codes = len(model.codebook)
    samples = {name: Samples.load(run.path / "samples" / f"{name}.safetensors", codes) for name in SPLITS}
    conditions = {
        name: parse_condition(words, model.classes, model.attributes) for name, words in info["conditions"].items()
    }
    return Study(run, model, extractor, samples, conditions, device)
