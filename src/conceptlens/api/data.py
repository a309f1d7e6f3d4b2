"""Data and concept files, before anything is trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conceptlens.core.errors import UserError
from conceptlens.core.progress import note

if TYPE_CHECKING:
    from conceptlens.data.checks.check import DataReport
    from conceptlens.data.dataset import DataSource
    from conceptlens.workflows.authoring.check import Checked
    from conceptlens.workflows.authoring.draft import Drafted
    from conceptlens.workflows.init.init import Setup
    from conceptlens.workflows.label.labeling import LabelReport
    from conceptlens.workflows.prepare.prepare import Prepared
    from conceptlens.workflows.regions.detect import Detected
    from conceptlens.workflows.regions.segment import Segmented


def init(
    path: str | Path,
    *,
    out: str | Path | None = None,
    class_column: str = "",
    group_column: str = "",
    yes: bool = False,
    overwrite: bool = False,
    quiet: bool = True,
) -> "Setup":
    """Look at a folder of images, tables and masks; write a table, a concept file and a recipe, and check them.

    On a terminal it asks about uncertain points; Enter accepts a proposal. Nothing in the folder changes.

    Args:
        path: The folder, or a table in it.
        out: Folder for the files; `NAME-setup` here by default.
        class_column: The column with the class, if the proposed one is wrong.
        group_column: The column that says what belongs together (patient, lesion, eye); `none` for none.
        yes: Accept all proposals without asking.
        overwrite: Replace files of an earlier `init`.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> print(cl.init("photos", out="setup").text())  # doctest: +SKIP
    """
    from conceptlens.workflows.init.init import init_folder

    return init_folder(
        path, out=out, class_column=class_column, group_column=group_column, yes=yes, overwrite=overwrite, quiet=quiet
    )


def check_data(
    source: str | Path | None = None,
    *,
    concepts: str | Path | None = None,
    data: Mapping[str, Any] | str | None = None,
    out: str | Path | None = None,
    copies: str | Path | None = None,
    quiet: bool = True,
) -> "DataReport":
    """Find what is wrong with images, labels and splits before anything is trained.

    Args:
        source: A recipe, a folder, a table, or the name of built-in data.
        concepts: The concept file, or the name of a ready one.
        data: Settings of a recipe's `data` section.
        out: A .json file for the findings.
        copies: A .csv file for every pair of equal or nearly equal images, with a group that keeps them together.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> len(cl.check_data("shapes", data={"limit": 60}).text()) > 0
    True
    """
    from conceptlens.concepts import ConceptSet
    from conceptlens.core.files import write_json, write_text
    from conceptlens.data.checks.check import check_data as check
    from conceptlens.data.checks.check import copies_table
    from conceptlens.recipes.parse import load_recipe

    section = {"source": data} if isinstance(data, str) else dict(data or {})
    if str(source).endswith((".yaml", ".yml")):
        recipe = load_recipe(source, {"data": section}, trusted=True)
    else:
        recipe = load_recipe({"data": section | ({} if source is None else {"source": str(source)})}, trusted=True)
    concepts = concepts or recipe.concepts
    report = check(recipe.data, ConceptSet.load(concepts) if concepts else None, quiet=quiet)
    if out is not None:
        write_json(Path(out), report.to_dict())
    if copies is not None:
        write_text(Path(copies), copies_table(report))
    return report


def label(
    recipe: str | Path,
    *,
    rater: str = "me",
    n: int = 50,
    table: str | Path | None = None,
    read: str | Path | None = None,
    status: bool = False,
    port: int = 0,
    open_browser: bool = True,
    quiet: bool = True,
) -> "LabelReport":
    """Label concepts of images on a page or in a table, the most useful images first.

    Every answer is saved at once in `labels/RATER.csv` beside the recipe's table, so you can stop and continue at any
    time. At the end the labels on which raters agree are written into the table, with an estimate of what more labels
    would bring.

    Args:
        recipe: A recipe whose data is a CSV table, as `init` writes it.
        rater: Who labels; two raters get some images in common, and their agreement is measured.
        n: How many images to queue.
        table: Write the next images as a CSV table to this file, to be filled in a spreadsheet, instead of a page.
        read: Read a table that was filled in.
        status: Show the progress of labeling, and label nothing.
        port: Port of the page; any free one by default.
        open_browser: Open the page in a browser, if this is a terminal.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.label("setup/recipe.yaml", status=True)  # doctest: +SKIP
    """
    import sys

    from conceptlens.workflows.label.labeling import Labeling, read_sheet, write_sheet

    if n < 1:
        raise UserError(f"--n: expected one image or more, found {n}.")
    labeling, say = Labeling(recipe, rater), note(quiet)
    if read is not None:
        say(f"{read_sheet(labeling, Path(read))} images read from {read}")
    if table is not None:
        count = write_sheet(labeling, Path(table), n)
        more = f"{table}: {count} images to fill in; read it back with --read {table}"
        say(more if count else "every image has its labels: there is nothing to fill in")
    if read is not None or table is not None or status:
        return labeling.finish()
    from conceptlens.web.label.server import serve_labeling

    opens = open_browser and sys.stdout.isatty()
    return serve_labeling(labeling, n=n, port=port, open_browser=opens, say=lambda text: print(text, file=sys.stderr))


def prepare_data(
    name: str,
    folder: str | Path,
    *,
    out: str | Path = "data",
    image_labels: bool = False,
    sizes: str | Path | None = None,
    split: str | Path | None = None,
) -> "Prepared":
    """Write the tables that recipes and comparisons read, from a data set's folder as it is published.

    Nothing is downloaded or copied: images are linked. The result says where the data come from and on what terms.

    Args:
        name: `cub`, `ham10000`, `idrid` or `blood-cells`.
        folder: The published folder, unpacked; of IDRiD `B. Disease Grading`.
        out: Folder for tables and links; several data sets may share it.
        image_labels: CUB: attributes of each image (image_attribute_labels.txt) in place of its class's, certainties
            as weights.
        sizes: CUB: a table image_id, width, height of the original images, where the folder holds smaller copies.
        split: HAM10000: a table image_id, lesion_id, dx, split; by lesion at random if not given.

    >>> import conceptlens as cl
    >>> cl.prepare_data("cub", "CUB_200_2011")  # doctest: +SKIP
    """
    from conceptlens.workflows.prepare.prepare import prepare

    return prepare(
        name,
        Path(folder),
        out=Path(out),
        image_labels=image_labels,
        sizes=None if sizes is None else Path(sizes),
        split=None if split is None else Path(split),
    )


def detect_concepts(
    source: str | Path,
    *,
    concepts: str | Path,
    out: str | Path,
    detections: str | Path | None = None,
    detector: str | None = None,
    threshold: float = 0.15,
    data: Mapping[str, Any] | str | None = None,
    quiet: bool = True,
) -> "Detected":
    """Label images with the concepts that an open-vocabulary detector sees, with boxes, as `vlg-cbm` learns from them.

    Give detections that were made elsewhere, or a detector of transformers. What a detector has seen is kept as it
    goes: the same command goes on.

    Args:
        source: A folder, a table, or the name of built-in data.
        concepts: A text file with a phrase a line, or a concept file, whose values are looked for.
        out: Folder for labels.csv, boxes.csv and concepts.yaml.
        detections: JSON as VLG-CBM publishes it (a folder of NUMBER.json), or a file from image to boxes.
        detector: A Grounding DINO or OWLv2 of transformers, by its folder or its name on the hub.
        threshold: A box counts above this confidence.
        data: Settings of a recipe's `data` section.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.detect_concepts("photos", concepts="phrases.txt", detections="boxes", out="seen")  # doctest: +SKIP
    """
    from conceptlens.workflows.regions.detect import phrases, run_detector, write_detections
    from conceptlens.workflows.regions.detections import read_detections
    from conceptlens.workflows.regions.detectors import open_detector

    if (detections is None) == (detector is None):
        raise UserError("Give either --detections, made elsewhere, or a --detector to run.")
    if not 0 <= threshold < 1:
        raise UserError(f"--threshold: expected a confidence from 0 to below 1, found {threshold}.")
    images, labels = _images(source, data), phrases(concepts)
    kept = Path(out) / "detections.json" if detections is None else Path(detections)
    if detector is not None:
        run_detector(images, labels, open_detector(detector, least=min(threshold, 0.05)), kept, note(quiet))
    found = read_detections(kept, images.examples.ids)
    return write_detections(images, labels, found, Path(out), threshold=threshold)


def segment_images(
    source: str | Path,
    *,
    out: str | Path,
    images_per_class: int = 50,
    points: int = 16,
    most: int = 20,
    smallest: float = 0.005,
    largest: float = 0.6,
    seed: int = 0,
    data: Mapping[str, Any] | str | None = None,
    quiet: bool = True,
) -> "Segmented":
    """Cut images into segments with MobileSAM, as `dcbm` clusters them; masks are written as they are made.

    Args:
        source: A folder, a table, or the name of built-in data.
        out: Folder for the masks and for regions.yaml, which names them.
        images_per_class: Images of each class; 0 for all.
        points: MobileSAM is asked at so many points a side.
        most: Segments kept of an image, the surest first.
        smallest: The smallest share of an image that a segment may have.
        largest: The largest.
        seed: Random seed.
        data: Settings of a recipe's `data` section.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.segment_images("photos", out="segments")  # doctest: +SKIP
    """
    from conceptlens.core.devices import best_device
    from conceptlens.workflows.regions.segment import mobile_sam, rows_of_each, write_segments

    images = _images(source, data)
    return write_segments(
        images,
        mobile_sam(str(best_device()), points),
        Path(out),
        rows=rows_of_each(images, images_per_class, seed),
        most=most,
        smallest=smallest,
        largest=largest,
        note=note(quiet),
    )


def _images(source: str | Path, data: Mapping[str, Any] | str | None) -> "DataSource":
    """The images that words and settings of a recipe's `data` name."""
    from conceptlens.concepts import ConceptSet
    from conceptlens.data.sources.open import BUILTIN, open_source
    from conceptlens.recipes.parse import load_recipe

    section = {} if data is None or isinstance(data, str) else dict(data)
    config = load_recipe({"data": section | {"source": str(source)}}, trusted=True).data
    return open_source(config, None if config.source in BUILTIN else ConceptSet.none())[0]


def draft_concepts(
    *,
    classes: Sequence[str],
    domain: str,
    out: str | Path,
    endpoint: str | None = None,
    model: str | None = None,
    checker: str | None = None,
    checker_endpoint: str | None = None,
    key_variable: str = "CONCEPTLENS_API_KEY",
    checker_key_variable: str | None = None,
    answers: str | Path | None = None,
    per_class: int = 10,
    text_encoder: str = "builtin/text",
    max_words: int = 20,
    duplicate_cosine: float | None = None,
    class_cosine: float | None = None,
    keep: Sequence[str] = (),
    timeout: float = 120.0,
    attempts: int = 5,
    per_minute: float = 0,
    at_once: int = 4,
    quiet: bool = True,
) -> "Drafted":
    """Turn class names and a domain into a concept file, with a language model or with pasted answers.

    Without an endpoint the questions are written to a file: paste the answers there and run the command again.

    Args:
        classes: A class, or a file with a class a line.
        domain: What the images show, as `white blood cells in stained smears`.
        out: Folder for the concept file, its reasons, and the questions and answers.
        endpoint: The address of an OpenAI-compatible service, as http://localhost:8000/v1.
        model: The model's name there; not needed where the service has only one.
        checker: A second model that checks the answers.
        checker_endpoint: The address of the second model; that of the first by default.
        key_variable: The environment variable that holds the endpoint's key. Keys are never written anywhere.
        checker_key_variable: The same for the second model's endpoint.
        answers: The file of questions and answers; answers.md in the folder by default.
        per_class: Features to ask for, for each class.
        text_encoder: The text encoder that compares texts.
        max_words: Largest number of words in a concept's text; 0 for any number.
        duplicate_cosine: Cosine similarity from which two texts count as duplicates.
        class_cosine: Cosine similarity from which a text counts as a class name.
        keep: A concept (`group: value`) or a group that no filter removes.
        timeout: Seconds for one answer.
        attempts: Tries while the endpoint is slow, busy or broken.
        per_minute: Largest number of requests a minute; 0 for any number.
        at_once: Requests at the same time.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.draft_concepts(classes=["robin", "wren"], domain="birds", out="drafts")  # doctest: +SKIP
    """
    from conceptlens.workflows.authoring.draft import draft_concepts as draft
    from conceptlens.workflows.authoring.filters.filters import Rules
    from conceptlens.workflows.authoring.language_model.models import models_asked

    asked = models_asked(
        endpoint,
        model,
        checker=checker,
        checker_endpoint=checker_endpoint,
        key_variable=key_variable,
        checker_key_variable=checker_key_variable,
        timeout=timeout,
        attempts=attempts,
        per_minute=per_minute,
    )
    return draft(
        _class_names(classes),
        domain,
        out,
        drafter=asked.drafter,
        checker=asked.checker,
        checker_name=asked.checker_name,
        answers=answers,
        per_class=per_class,
        text=text_encoder,
        rules=Rules(most_words=max_words, repeats_above=duplicate_cosine, class_above=class_cosine, keep=list(keep)),
        at_once=at_once,
        note=note(quiet),
    )


def _class_names(classes: Sequence[str]) -> list[str]:
    """Names as they are; the lines of a file where one is named."""
    names: list[str] = []
    for name in classes:
        file = Path(name)
        names += file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else [name]
    return [name.strip() for name in names if name.strip()]


def check_concepts(
    file: str | Path,
    *,
    data: Mapping[str, Any] | str | None = None,
    domain: str = "",
    text_encoder: str = "builtin/text",
    max_words: int = 20,
    duplicate_cosine: float | None = None,
    class_cosine: float | None = None,
    keep: Sequence[str] = (),
    encoder: str = "builtin/vit",
    n: int = 2000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Checked":
    """Find problems in a concept file and, with data, measure how well the images show each concept.

    Args:
        file: The concept file, or the name of a ready one.
        data: Images and labels: a folder, a table, or the name of built-in data.
        domain: What the images show: its words are not taken for a class name.
        text_encoder: The text encoder that compares texts.
        max_words: Largest number of words in a concept's text; 0 for any number.
        duplicate_cosine: Cosine similarity from which two texts count as duplicates.
        class_cosine: Cosine similarity from which a text counts as a class name.
        keep: A concept (`group: value`) or a group that no filter removes.
        encoder: The image encoder.
        n: Largest number of images.
        out: Folder for judgement.json and its page.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.check_concepts("shapes").text()
    '...'
    """
    from conceptlens.workflows.authoring.check import check_concepts as check
    from conceptlens.workflows.authoring.filters.filters import Rules

    section = {"source": data} if isinstance(data, str) else data
    if section and "source" not in section:
        raise UserError("Settings of the data were given, but no data: add --data SOURCE.")
    rules = Rules(most_words=max_words, repeats_above=duplicate_cosine, class_above=class_cosine, keep=list(keep))
    return check(
        file, section, domain=domain, text=text_encoder, rules=rules, encoder=encoder, n=n, out=out, note=note(quiet)
    )
