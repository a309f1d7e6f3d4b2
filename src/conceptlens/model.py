"""A trained model as an object."""

import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from torch import nn

from conceptlens.core.documents import Document
from conceptlens.core.files import read_json
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.opened import OpenedRun

if TYPE_CHECKING:
    from conceptlens.evaluation.codebook.document import Audit
    from conceptlens.evaluation.evaluate import Evaluation
    from conceptlens.evaluation.examination import Trust
    from conceptlens.evaluation.faithfulness.faithfulness import Faithfulness
    from conceptlens.evaluation.interventions.measure import Interventions
    from conceptlens.evaluation.interventions.what_if import WhatIf
    from conceptlens.evaluation.leakage.leakage import Leakage
    from conceptlens.evaluation.localization.localize import Localization
    from conceptlens.explanations.explain import ExplanationList
    from conceptlens.explanations.predict import Predictions
    from conceptlens.explanations.subjects import Images, OneImage
    from conceptlens.workflows.export.export import Exported
    from conceptlens.workflows.refine.document import Refinement

Saved = TypeVar("Saved", bound=Document)


class TrainedModel(OpenedRun):
    """A trained model: predict, explain, correct, measure and export it. Its files are in `path`.

    >>> import numpy as np, conceptlens as cl
    >>> model = cl.load(run)  # a run folder
    >>> prediction = model.predict(np.zeros((32, 32, 3), np.uint8))[0]
    >>> prediction.predicted in model.classes
    True
    >>> len(model.intervene(np.zeros((32, 32, 3), np.uint8), ["body colour=red"]).to_dict()) > 0
    True
    """

    _temporary: tempfile.TemporaryDirectory[str] | None = None  # a folder that lives as long as this

    @property
    def module(self) -> nn.Module:
        """The network as a plain `nn.Module`: images (B, 3, H, W), as bytes or from 0 to 1, to a `ConceptOutput`."""
        return self.pipeline

    @property
    def classes(self) -> list[str]:
        """The classes' names, in the order of the logits."""
        return list(self.card.classes)

    @property
    def concept_names(self) -> list[str]:
        """The concepts' names, in the order of the bottleneck."""
        return self.read_concepts.names

    def predict(self, images: "Images") -> "Predictions":
        """Class and concepts of images.

        Args:
            images: Files, folders, PIL images, arrays, tensors, a torch `Dataset`, a `DataLoader`, or a list of them.

        >>> import conceptlens as cl
        >>> cl.load(run).predict(["image.png"])[0].image
        'image.png'
        """
        from conceptlens.explanations.predict import predict

        return predict(self, images)

    def explain(self, images: "Images" = (), **settings: Any) -> "ExplanationList":
        """Why the model says what it says: contributions, maps and a sentence for each image.

        Args:
            images: As for `predict`; none for images of the run's own data.
            settings: See `conceptlens.explanations.explain.explain`: `concepts`, `maps`, `split`, `n`, `show`, ….

        >>> import conceptlens as cl
        >>> cl.load(run).explain("image.png")[0].sentence
        'predicted ...'
        """
        from conceptlens.explanations.explain import explain

        return explain(self, images, **settings)

    def intervene(self, image: "OneImage", edits: Mapping[str, Any] | Sequence[str]) -> "WhatIf":
        """One image with some concepts set by hand, before and after.

        Args:
            image: A file, a PIL image, an array, a tensor, or the name of one of the run's test images.
            edits: Values by group, as `{"granule colour": "red"}`, or words, as `["granularity: yes=0.3"]`.

        >>> import conceptlens as cl
        >>> cl.load(run).intervene("image.png", {"body colour": "red"}).text()
        '...'
        """
        from conceptlens.evaluation.trust import what_if_run

        words = [f"{name}={value}" for name, value in edits.items()] if isinstance(edits, Mapping) else list(edits)
        return what_if_run(self, image, words, split=self.reported_split)

    def evaluate(self, data: Any = None, *, split: str | None = None, out: str | Path | None = None) -> "Evaluation":
        """Classes, concepts and ranks with intervals, on a split of the run's own data or on other data.

        Args:
            data: Other data: a source, or keys of a recipe's `data` section; the run's own by default.
            split: `train`, `val`, `test` or `all`.
            out: File for the result; nothing is written by default.

        >>> import conceptlens as cl
        >>> cl.load(run).evaluate().text()
        '...'
        """
        from conceptlens.evaluation.evaluate import evaluate_run

        section = {"source": str(data)} if isinstance(data, str | Path) else data
        config = None if section is None else load_recipe({"data": dict(section)}, trusted=True).data
        return _kept(evaluate_run(self, data=config, split=split), out)

    def trust(self, *, out: str | Path | None = None, **settings: Any) -> "Trust":
        """Every examination that the data allows: corrections, leakage, maps, calibration, subgroups, faithfulness.

        Args:
            out: File for the result; nothing is written by default.
            settings: See `conceptlens.evaluation.examination.trust_run`: `split`, `n`, `resamples`, `without`.

        >>> import conceptlens as cl
        >>> cl.load(run).trust(without=["faithfulness"], resamples=100).text()  # doctest: +SKIP
        """
        from conceptlens.evaluation.examination import trust_run
        from conceptlens.training.without_class import trained_without_class

        return _kept(trust_run(self, **{"retrain": trained_without_class, **settings}), out)

    def interventions(self, *, out: str | Path | None = None, **settings: Any) -> "Interventions":
        """What the class does when concepts are corrected, in several orders.

        Args:
            out: File for the result; nothing is written by default.
            settings: See `conceptlens.evaluation.trust.intervene_run`: `split`, `by`, `to`, `orders`, ….

        >>> import conceptlens as cl
        >>> cl.load(run).interventions().text()  # doctest: +SKIP
        """
        from conceptlens.evaluation.trust import intervene_run

        return _kept(intervene_run(self, **{"split": self.reported_split, **settings}), out)

    def leakage(self, *, out: str | Path | None = None, **settings: Any) -> "Leakage":
        """Whether the concepts' scores carry more of the class than the concepts' labels do.

        Args:
            out: File for the result; nothing is written by default.
            settings: See `conceptlens.evaluation.trust.leakage_run`.

        >>> import conceptlens as cl
        >>> cl.load(run).leakage(permutations=19).text()  # doctest: +SKIP
        """
        from conceptlens.evaluation.trust import leakage_run
        from conceptlens.training.without_class import trained_without_class

        own = {"split": self.reported_split, "retrain": trained_without_class}
        return _kept(leakage_run(self, **{**own, **settings}), out)

    def localize(self, *, out: str | Path | None = None, **settings: Any) -> "Localization":
        """Whether maps point at the object, and at the part that each concept speaks of.

        Args:
            out: File for the result; nothing is written by default.
            settings: See `conceptlens.evaluation.localization.localize.localize_run`.

        >>> import conceptlens as cl
        >>> cl.load(run).localize().to_pandas()  # doctest: +SKIP
        """
        from conceptlens.evaluation.localization.localize import localize_run

        return _kept(localize_run(self, **settings), out)

    def faithfulness(self, *, out: str | Path | None = None, **settings: Any) -> "Faithfulness":
        """Whether maps show what the model used: insertion, deletion, occlusion, noise, random weights.

        Args:
            out: File for the result; nothing is written by default.
            settings: See `conceptlens.evaluation.faithfulness.faithfulness.faithfulness_run`.

        >>> import conceptlens as cl
        >>> cl.load(run).faithfulness(n=8).text()  # doctest: +SKIP
        """
        from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run

        return _kept(faithfulness_run(self, **settings), out)

    def audit(self, *, out: str | Path | None = None, **settings: Any) -> "Audit":
        """What the codebook and the concepts have become, subgroups, calibration, images out of distribution.

        Args:
            out: Folder for the result, its pictures and its page; nothing is written by default.
            settings: See `conceptlens.workflows.audit.audit.audit_run`.

        >>> import conceptlens as cl
        >>> cl.load(run).audit(resamples=20).text()  # doctest: +SKIP
        """
        from conceptlens.workflows.audit.audit import FOLDER, audit_run, save_audit

        audit = audit_run(self, **settings)
        if out is not None:
            save_audit(audit, self.out_folder(out, FOLDER))
        return audit

    def refine(self, *, out: str | Path | None = None, **settings: Any) -> "Refinement":
        """Change concepts, train again with the same seeds, and compare.

        Args:
            out: Folder for the trainings; below `refine/` in the run folder by default.
            settings: See `conceptlens.workflows.refine.refine.refine_run`: `replace`, `drops`, `rename`, `seeds`, ….

        >>> import conceptlens as cl
        >>> cl.load(run).refine(drops=["body colour: red"]).text()  # doctest: +SKIP
        """
        from conceptlens.workflows.refine.refine import refine_run

        return refine_run(self, out=out, **settings)

    def export(
        self,
        out: str | Path | None = None,
        *,
        format: Literal["torch", "onnx"] = "torch",
        size: int | None = None,
        precision: Literal["fp32", "fp16"] = "fp32",
    ) -> "Exported":
        """Write the model as one file that runs without conceptlens.

        Args:
            out: The file; `export/model.pt2` or `export/model.onnx` in the run folder by default.
            format: `torch`, for `torch.export.load`, or `onnx`.
            size: Side in pixels of the images it takes; the model's own by default.
            precision: `fp16` computes the encoder in half precision: about half the size, made for GPUs.

        >>> import conceptlens as cl
        >>> cl.load(run).export("cells.onnx", format="onnx", precision="fp16").text()  # doctest: +SKIP
        """
        from conceptlens.workflows.export.export import export_run

        return export_run(self, format=format, out=out, size=size, precision=precision)

    def push_to_hub(
        self, repository: str, *, private: bool = True, license: str | None = None, message: str | None = None
    ) -> str:
        """Publish the model on a hub with a card of what was measured; returns its address. No image is published.

        Args:
            repository: USER/NAME; is made if it does not exist.
            private: Make a new repository private.
            license: License of the weights, in the hub's abbreviation.
            message: Message of the commit.

        >>> import conceptlens as cl
        >>> cl.load(run).push_to_hub("lab/cells", license="cc-by-4.0")  # doctest: +SKIP
        """
        from conceptlens.workflows.hub.transfer import push_run

        return push_run(self, repository, private=private, license=license, message=message)

    def save_pretrained(self, folder: str | Path, *, license: str | None = None) -> None:
        """Write what `push_to_hub` publishes to a folder, to look at it before.

        Args:
            folder: Is made, or replaced.
            license: License of the weights, for the card.

        >>> import conceptlens as cl
        >>> cl.load(run).save_pretrained("published")
        ...
        """
        from conceptlens.workflows.hub.published import save_published

        save_published(self, Path(folder), license=license)

    def text(self) -> str:
        """The result of the training, and where to look."""
        from conceptlens.evaluation.summary import run_text

        return run_text(self)

    def to_dict(self) -> dict[str, Any]:
        """What the run is and what it measured."""
        return {"path": str(self.path), "run": self.info, "metrics": read_json(self.path / "metrics.json")["splits"]}

    def _repr_html_(self) -> str:
        return f"<h4>{escape(repr(self))}</h4><pre>{escape(self.text())}</pre>"

    def __repr__(self) -> str:
        info = self.info
        return f"TrainedModel({str(self.path)!r}, method={info['method']!r}, data={info['data']['name']!r})"


def _kept(result: Saved, out: str | Path | None) -> Saved:
    """The result, written where it is wanted."""
    return result if out is None else result.save(out)
