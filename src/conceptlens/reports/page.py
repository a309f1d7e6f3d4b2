"""`report.html`: the page of a run. One file, no scripts, nothing from the network; equal runs have equal pages."""

from pathlib import Path

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_text
from conceptlens.data.loading.loader import PixelReader
from conceptlens.explanations.caution import Caution
from conceptlens.methods.contract import Pipeline
from conceptlens.pages.shell import render_page
from conceptlens.reports.classes import classes
from conceptlens.reports.codebook import inside
from conceptlens.reports.concept_table import concept_table
from conceptlens.reports.curves import curves
from conceptlens.reports.headline import headline, result
from conceptlens.reports.material import Material, shown_split
from conceptlens.reports.measures import numbers
from conceptlens.reports.provenance import provenance
from conceptlens.reports.questions import questions
from conceptlens.reports.stories import tell
from conceptlens.reports.story_cards import story_cards
from conceptlens.reports.thumbnails import Pictures, pictures_from, pictures_of
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.predict import Predictions
from conceptlens.runs.saved import load_card

FILE = "report.html"

FOOTER = (
    "Numbers count images, not patients. A research tool, not for diagnosis. The figures behind this page are in "
    "metrics.json, history.jsonl and stories.json of the run folder."
)


def render_report(run: RunFolder) -> Path:
    """Draw the page of a finished run again, from its files; the data is opened for pictures only, and may be gone.

    Raises:
        UserError: The run is not done, or its files are not those of a run.
    """
    status = run.info.get("status")
    if status != "done":
        raise UserError(f"{run.path}: this run is not done ({status}). Finish it with {run.how_to_go_on}.")
    try:
        material = Material.read(run)
        return _write(run, material, pictures_of(run, material))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{run.path}: its files do not fit together ({type(error).__name__}: {error}). "
            "Were they edited, or written by another version? Copy the whole run folder again."
        ) from error


def write_report(
    run: RunFolder, pipeline: Pipeline, reader: PixelReader, concepts: ConceptSet, predicted: dict[str, Predictions]
) -> Path:
    """Choose and keep the stories of a run that has just been measured, and draw its page.

    Args:
        run: It has all its files but `stories.json` and `report.html`.
        pipeline: The chosen model.
        reader: The data's pixels.
        concepts: The vocabulary.
        predicted: Predictions of `val` and `test`; stories are of the split whose numbers are shown.
    """
    split = shown_split(read_json(run.path / "metrics.json")["splits"])
    card = load_card(run.path / "model")
    told = tell(
        predicted[split],
        pipeline,
        reader,
        concepts,
        split=split,
        thresholds=card.thresholds,
        counts=card.concept_counts,
        caution=Caution.read(run.path, card),
    )
    told.write(run.path)
    material = Material.read(run)
    return _write(run, material, pictures_from(reader.source, material.stories, card.fit))


def _write(run: RunFolder, material: Material, pictures: Pictures) -> Path:
    write_text(run.path / FILE, page(material, pictures))
    return run.path / FILE


def page(material: Material, pictures: Pictures) -> str:
    """The whole page."""
    sections = (
        ("questions", "What you may ask", questions(material)),
        ("numbers", "The numbers", numbers(material)),
        ("training", "Training", curves(material)),
        ("classes", "Classes", classes(material)),
        ("concepts", "Concepts", concept_table(material)),
        ("inside", "Codebook and slots", inside(material)),
        ("stories", "Examples", story_cards(material, pictures)),
        ("made", "What made this run", provenance(material)),
    )
    title = f"{material.info['method']} on {material.info['data']['name']}"
    return render_page(title, headline(material), sections, footer=FOOTER, description=result(material))
