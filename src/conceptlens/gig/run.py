"""`conceptlens decompose`: from a model and images to a run folder with graphs and a page.

Each stage writes its files atomically and is skipped when they exist, so that the same command continues where it was
stopped. The stages are: outputs of the model, samples of each layer, concepts of each layer, graphs, validation, page.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from pydantic import ValidationError
from safetensors.torch import save
from torch import Tensor, nn

from conceptlens.core.devices import VARIABLE
from conceptlens.core.documents import ResultMixin
from conceptlens.core.engines import EngineName, make_engine
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_text, write_bytes, write_text
from conceptlens.core.network import offline
from conceptlens.core.plugins import check_code, code_records, is_code, trust
from conceptlens.core.progress import Note
from conceptlens.gig.cost import estimate
from conceptlens.gig.dictionaries.layer_concepts import LayerConcepts
from conceptlens.gig.distributed import FOLDER as JOBS
from conceptlens.gig.distributed import decompose_in_processes
from conceptlens.gig.document import About, Graph
from conceptlens.gig.graph import Known, Seen, build_graph
from conceptlens.gig.held_out import HeldOut, a_share, held_out_file, main_outputs, most_held_out, surest
from conceptlens.gig.names import with_names
from conceptlens.gig.pages.drawing import strongest_path, svg
from conceptlens.gig.pages.page import page
from conceptlens.gig.pages.pictures import keep_pictures
from conceptlens.gig.pages.sections import kept_section, trajectory_section, validation_section
from conceptlens.gig.picture_cache import PictureCache, Sampled
from conceptlens.gig.samples import Samples, collect
from conceptlens.gig.settings import Settings
from conceptlens.gig.validation.robustness import Kept, attack, kept_concepts, noisy
from conceptlens.gig.validation.trajectory import trajectory
from conceptlens.gig.validation.validation import Validation, validate
from conceptlens.gig.work import Outputs, Work, check_predictions, find_concepts, layer_file, read_predictions
from conceptlens.pages.markup import Html
from conceptlens.runs.annotations import read_annotations
from conceptlens.runs.folder import RunFolder

KIND = "decompose"
PAGE = "report.html"
BATCH = 8
IN_MEMORY = " in memory"  # end of the description of an object, in the place of a name
OF_THE_DATA = 8  # outputs in the graph of the data
NO_SHARES = "Sharing ratios cannot be propagated through a part of this model. Use --rule gradient instead."


@dataclass(frozen=True, repr=False)
class Decomposed(ResultMixin):
    """A finished decomposition: its run folder, its page and the graph of its main outputs."""

    run: RunFolder
    page: Path
    graph: Graph
    words: str

    def text(self) -> str:
        return f"{self.words}\nwritten: {self.page}"

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.run.path), "page": str(self.page), "graph": self.graph.to_dict()}

    def _repr_html_(self) -> str:
        return super()._repr_html_() + read_text(self.run.path / "graph.svg")


def decompose_run(
    settings: Settings,
    out: str | Path,
    *,
    overwrite: bool = False,
    note: Note = lambda text: None,
    trusted: bool = False,
    module: nn.Module | None = None,
    images: Any = None,
    batch_size: int = BATCH,
    workers: int = 2,
    processes: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
) -> Decomposed:
    """Decompose a model; called again with the same settings, it continues where it was stopped.

    Args:
        settings: What to decompose, and how.
        out: The run folder.
        overwrite: Replace a run that is in the way.
        note: Called with progress messages.
        trusted: The user passed these settings: own code that they name may run.
        module: A model in memory, in the place of what the settings name.
        images: Images in memory, in the place of what the settings name.
        batch_size: Images that pass the model at once.
        workers: Threads that read images ahead.
        processes: Processes that share images and layers, each on a GPU of its own where there are several.
        engine: What starts them: `local`, `ray` or `slurm`.
        engine_option: Its own settings, as `num_gpus=1`.
    """
    if batch_size < 1 or workers < 0:
        raise UserError(f"--batch-size and --workers: expected 1 or more and 0 or more, got {batch_size}, {workers}.")
    if processes < 1:
        raise UserError(f"--processes: expected 1 or more, got {processes}.")
    shared = processes > 1 or engine != "local"
    if shared and (module is not None or images is not None):
        raise UserError(
            "processes: a model or images in memory are known to this process alone. Name the model "
            "(`file.py:function`) and a folder or recipe, or leave processes at 1 and the engine at local."
        )
    if processes > 1 and ":" in (named := os.environ.get(VARIABLE, "")):
        raise UserError(f"--device {named}: several processes take the GPUs in turn. Leave the number out.")
    if (settings.images is None) == (settings.data is None):
        raise UserError("Name the images: a folder as the second argument, or --data RECIPE, but not both.")
    for what, word, thing in (("a model", settings.model, module), ("images", settings.images, images)):
        if str(word).endswith(IN_MEMORY) and thing is None:
            raise UserError(
                f"{out}: this run was made with {what} in memory, which is not saved. Call conceptlens.gig.decompose "
                f"again with the same objects, the same settings and out={str(out)!r}."
            )
    path = Path(out)
    again = (path / "settings.json").exists() and not overwrite
    if again and Settings.read(path / "settings.json") != settings:
        raise UserError(
            f"{path}: another decomposition is here, with other settings. Choose another folder with --out, or replace "
            "it with --overwrite."
        )
    own_code = [settings.model] if is_code(settings.model) else []
    if trusted:
        for word in own_code:
            trust(word)
    # What is wrong with a model or its layers is reported before a folder is made.
    work = Work.open(settings, note, trusted, module, images, batch_size, workers)
    if not again:
        _check_cost(work, path)
    with RunFolder.open(path).lock() if again else RunFolder.create(path, overwrite=overwrite) as run:
        run.clean()
        if not again:
            run.update(
                id=path.resolve().name,
                kind=KIND,
                method="gig",
                status="running",
                model={
                    "name": work.model.name,
                    "hash": work.model.weights_hash,
                    "preprocessing": work.model.preprocessing.text(),
                },
                **({"code": code_records(own_code)} if own_code else {}),
                data={"name": settings.images or settings.data, "hash": work.gallery.fingerprint},
            )
            run.write_environment()
            settings.write(path / "settings.json")
        elif run.info["data"]["hash"] != work.gallery.fingerprint:
            raise UserError(f"{path}: the images changed since this run began. Start again with --overwrite.")
        elif run.info["model"]["hash"] != work.model.weights_hash:
            raise UserError(f"{path}: the model changed since this run began. Start again with --overwrite.")
        run.update(status="running")
        try:
            if shared:
                runner = make_engine(engine, processes, run.path / JOBS, engine_option)
                decompose_in_processes(run.path, work, processes, workers, runner)
            result = _stages(work, run)
        except RuntimeError as error:
            if settings.rule != "srd" or "does not require grad" not in str(error):
                raise
            run.update(status="failed", reason=NO_SHARES)
            raise UserError(NO_SHARES) from error
        except BaseException as error:  # Ctrl-C and SIGTERM as well: nothing runs any more
            with contextlib.suppress(OSError):
                run.update(status="failed", reason=str(error) or type(error).__name__)
            raise
        run.update(status="done", reason=None)
        return result


def resume_decomposition(path: str | Path, note: Note = lambda text: None) -> Decomposed:
    """Continue a run with its own settings; code that they name runs only if the user has allowed it."""
    run = RunFolder.open(path)
    settings = Settings.read(run.path / "settings.json")
    if is_code(settings.model):
        check_code([settings.model], run.path)
    with offline():
        return decompose_run(settings, run.path, note=note)


def make_settings(**values: object) -> Settings:
    """Settings from the words of a command; what does not fit is named."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).replace("_", "-")
        raise UserError(f"--{name}: {first['msg']}; got {first['input']!r}.") from None


def _check_cost(work: Work, path: Path) -> None:
    """Say what a run costs; refuse one that cannot end."""
    s = work.settings
    try:
        cost = estimate(work.network, work.gallery, s, work.batch_size)
    except RuntimeError as error:
        if s.rule == "srd" and "does not require grad" in str(error):
            raise UserError(NO_SHARES) from error
        raise
    points = [work.network.hook_point(layer) for layer in work.network.layers]
    learned_from = len(work.gallery) - most_held_out(work)
    fewest = learned_from * min(min(s.per_image, point.positions - point.prefix) for point in points)
    if s.k is not None and s.k > fewest:
        raise UserError(f"--k: {s.k} clusters of {fewest} vectors. Sample more vectors, or ask for fewer clusters.")
    place = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if cost.samples > free:
        raise UserError(
            f"{path}: samples need {cost.samples / 1e9:.2f} GB, but {free / 1e9:.2f} GB are free. Take fewer images, "
            "layers or vectors an image, or another disk."
        )
    work.note(cost.text())


def _stages(work: Work, run: RunFolder) -> Decomposed:
    scores, vectors = _outputs_and_samples(work, run)
    held = held_out_file(work, run.path, scores)
    vectors = {layer: taken.without(held.numbers) for layer, taken in vectors.items()}
    concepts = _concepts(work, run, vectors)
    samples = {layer: Sampled(taken.image, taken.position) for layer, taken in vectors.items()}
    cache = PictureCache(work.network, work.gallery, samples, concepts, work.settings.crops, rule=work.settings.rule)
    known, main = Known(work.network, concepts), main_outputs(work, scores)
    groups = {output: _images_of(work, scores, output, work.settings.examples) for output in main}
    about: About = "class" if len(main) == 1 else "classes"
    names = work.model.outputs
    title = " and ".join(names[output] for output in main)
    first = _graph(work, run, "graph", known, groups, about, f"{work.model.name}: {title}")
    cache.fill(first)
    links: list[tuple[str, str]] = []
    if "image" in work.settings.graphs:
        links.append(_image_page(work, run, known, cache, scores, main[0]))
    if "data" in work.settings.graphs:
        links.append(_data_page(work, run, known, cache, scores))
    more: list[tuple[str, Html]] = []
    more += _disturbed(work, run, known, cache, scores, main[0], links)
    if work.settings.validate_on:
        more.append(("Validation", validation_section(_validation(work, run, known, scores, main, held))))
    more.append(("Trajectories of concepts", trajectory_section(_trajectories(first, vectors, cache))))
    keep_pictures(cache, first, run.path)
    first.write(run.path / "graph.json")
    graph_pictures = cache.of_graph(first)
    named = with_names(first, read_annotations(run.path)["node"])
    write_text(run.path / "graph.svg", svg(named, graph_pictures.thumbnails, alone=True))
    write_text(run.path / PAGE, page(named, graph_pictures, links=links, more=more))
    layers = ", ".join(f"{row.layer} {row.concepts:,} concepts" for row in first.rows)
    words = f"{work.model.name}: {len(work.gallery)} images, {layers}\nimages: {work.model.preprocessing.text()}"
    return Decomposed(run, run.path / PAGE, first, words)


def _outputs_and_samples(work: Work, run: RunFolder) -> tuple[Tensor, dict[str, Samples]]:
    """What the model says of every image, (N, outputs), and samples of every layer, in one pass over the images."""
    path, s = run.path / "outputs.safetensors", work.settings
    scores = read_predictions(path, work, len(work.gallery)) if path.exists() else None
    outputs = Outputs(work, range(len(work.gallery)))
    vectors = collect(
        *(work.network, work.gallery, run.path / "samples", s.per_image, s.rule, s.seed, work.note),
        batch=work.batch_size,
        seen=outputs.add,
    )
    if scores is None:
        write_bytes(path, save({"outputs": check_predictions(work, outputs.whole())}))
        scores = read_predictions(path, work, len(work.gallery))
    return scores, vectors


def _concepts(work: Work, run: RunFolder, vectors: Mapping[str, Samples]) -> dict[str, LayerConcepts]:
    """Concept vectors of every layer."""
    concepts: dict[str, LayerConcepts] = {}
    for layer, taken in vectors.items():
        path = layer_file(run.path, layer)
        if not path.exists():
            find_concepts(work, layer, taken).write(path)
        concepts[layer] = LayerConcepts.read(path).to(work.network.device)
    return concepts


def _images_of(work: Work, scores: Tensor, output: int, most: int) -> list[Seen]:
    """The images that the model is surest about; of a class, among those it is given to."""
    return [work.seen(number) for number in surest(work, scores, output)[:most]]


def _graph(
    work: Work, run: RunFolder, name: str, known: Known, groups: dict[int, list[Seen]], about: About, title: str
) -> Graph:
    """A graph, read from its file where it was drawn before."""
    path = run.path / f"{name}.json"
    if path.exists():
        return Graph.read(path)
    graph = build_graph(
        work.network,
        known.coders,
        groups,
        work.model.outputs,
        about=about,
        title=title,
        model=work.model.name,
        how=work.how,
        note=work.note,
        known=known,
    )
    graph.write(path)
    return graph


def _write_page(
    run: RunFolder,
    name: str,
    graph: Graph,
    cache: PictureCache,
    pictures: dict[str, Image.Image] | None = None,
    more: list[tuple[str, Html]] | None = None,
) -> str:
    cache.fill(graph)
    keep_pictures(cache, graph, run.path, pictures)
    graph.write(run.path / f"{name}.json")
    graph_pictures = cache.of_graph(graph, pictures)
    write_text(run.path / f"{name}.html", page(graph, graph_pictures, links=[("the run", PAGE)], more=more or ()))
    return f"{name}.html"


def _one_image(work: Work, scores: Tensor, output: int) -> tuple[int, list[int]]:
    """The image of the image graph, and its outputs: the first two that the model gives it."""
    if work.settings.image is not None:
        number = work.gallery.names.index(work.settings.image)
    else:
        number = work.gallery.names.index(_images_of(work, scores, output, 1)[0].name)
    return number, scores[number].argsort(descending=True)[:1].tolist()


def _image_page(
    work: Work, run: RunFolder, known: Known, cache: PictureCache, scores: Tensor, main: int
) -> tuple[str, str]:
    number, outputs = _one_image(work, scores, main)
    title = f"{work.gallery.names[number]}: {work.model.outputs[outputs[0]]}"
    graph = _graph(work, run, "graph-image", known, {output: [work.seen(number)] for output in outputs}, "image", title)
    return "one image", _write_page(run, "graph-image", graph, cache)


def _data_page(work: Work, run: RunFolder, known: Known, cache: PictureCache, scores: Tensor) -> tuple[str, str]:
    if work.model.target == "probability":
        counts = torch.bincount(scores.argmax(1), minlength=len(work.model.outputs))
        outputs = [n for n in counts.argsort(descending=True, stable=True)[:OF_THE_DATA].tolist() if counts[n] > 0]
    else:
        outputs = scores.float().std(0).argsort(descending=True, stable=True)[:OF_THE_DATA].tolist()
    few = max(1, work.settings.examples // 4)
    groups = {output: _images_of(work, scores, output, few) for output in outputs}
    graph = _graph(work, run, "graph-data", known, groups, "data", f"{work.model.name}: the data")
    return "the data", _write_page(run, "graph-data", graph, cache)


def _disturbed(
    work: Work,
    run: RunFolder,
    known: Known,
    cache: PictureCache,
    scores: Tensor,
    main: int,
    links: list[tuple[str, str]],
) -> list[tuple[str, Html]]:
    """Graphs of the image with noise and under attack, beside that of the image as it is (Appendix J)."""
    s = work.settings
    if not s.noise and s.attack is None:
        return []
    number, outputs = _one_image(work, scores, main)
    plain = work.gallery.bytes(number).float().to(work.network.device) / 255
    module = work.network.model
    changed: list[tuple[str, str, Tensor]] = []
    if s.noise:
        changed.append(("noise", f"with noise of σ = {s.noise:g}", noisy(plain, s.noise, seed=s.seed)))
    if s.attack is not None:
        goal = work.model.outputs.index(s.attack)
        attacked = attack(lambda images: module(work.model.prepare(images)), plain, goal)
        reached = "" if attacked.reached else " (not reached)"
        changed.append(("attack", f"attacked to be {s.attack}{reached}", attacked.image))
        work.note(
            f"attack: {'reached' if attacked.reached else 'did not reach'} {s.attack}, l2 {attacked.distance:.2f}"
        )
    unit = {layer: torch.nn.functional.normalize(own.vectors, dim=1) for layer, own in known.coders.items()}
    sections = []
    for name, words, image in changed:
        pixels = work.model.prepare(image[None])[0]
        now = int(work.network.logits(pixels[None])[0].argmax())
        wanted = list(dict.fromkeys([*outputs, now]))
        title = f"{work.gallery.names[number]} {words}: {work.model.outputs[now]}"
        groups = {output: [Seen(f"{work.gallery.names[number]} {words}", pixels)] for output in wanted}
        before = {output: [work.seen(number)] for output in wanted}
        clean = _graph(work, run, f"graph-{name}-before", known, before, _about(wanted), "before")
        graph = _graph(work, run, f"graph-{name}", known, groups, _about(wanted), title)
        kept: list[Kept] = kept_concepts(clean, graph, unit)
        shown = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
        pictures = {f"{work.gallery.names[number]} {words}": Image.fromarray(shown)}
        section = kept_section(f"Concepts of {work.gallery.names[number]} that stay {words}", kept)
        to = _write_page(run, f"graph-{name}", graph, cache, pictures, [("Concepts that stay", section)])
        links.append((f"the image {words}", to))
        sections.append((f"The image {words}", section))
    return sections


def _about(outputs: list[int]) -> About:
    return "image" if len(outputs) == 1 else "classes"


def _validation(work: Work, run: RunFolder, known: Known, scores: Tensor, main: list[int], held: HeldOut) -> Validation:
    path = run.path / "validation.json"
    if not path.exists():
        images: list[tuple[Seen, int]] = []
        for output in main:
            numbers = held.of(output) or surest(work, scores, output)[: a_share(work, main)]
            images += [(work.seen(number), output) for number in numbers]
        kind = work.settings.target or work.model.target
        found = validate(work.network, known.coders, images, target=kind, shown=work.model.target, note=work.note)
        found.model_copy(update={"held_out": all(held.of(output) for output in main)}).write(path)
    return Validation.read(path)


def _trajectories(
    graph: Graph, taken: Mapping[str, Samples], cache: PictureCache
) -> list[tuple[str, float, list[tuple[str, str]]]]:
    """The strongest concept of the last layers for each output (Appendix I)."""
    trajectories = []
    for name in dict.fromkeys(node for output in graph.outputs for node in strongest_path(graph, output)[1:3]):
        node = graph.node(name)
        assert node.layer is not None
        assert node.concept is not None
        own = cache.concepts[node.layer]
        members = own.members(node.concept).cpu()
        if not len(members):
            continue  # of a dictionary that was learned: no sample is nearest to it
        vectors = taken[node.layer].take(members).to(own.shift) - own.shift
        way = trajectory(vectors, own.vectors[node.concept])
        stops = [int(members[stop]) for stop in way.stops]
        cache.take(node.layer, stops)
        pictures = [
            (
                f"{float(way.cosines[stop]):.2f} · {cache.gallery.names[int(taken[node.layer].image[sample])]}",
                cache.taken[node.layer, sample][0],
            )
            for stop, sample in zip(way.stops, stops, strict=True)
        ]
        trajectories.append((f"{node.layer} · {node.name}", way.distance, pictures))
    return trajectories
