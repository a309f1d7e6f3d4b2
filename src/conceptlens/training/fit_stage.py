"""A stage that fits: the model learns from all images at once (an SVM, a sparse regression), not by steps.

It is done whole or not at all: the state is written when it is over, so a killed one is done again, to the same result.
"""

from conceptlens.core.errors import UserError
from conceptlens.methods.contract import OWN, Pipeline
from conceptlens.recipes import StageConfig
from conceptlens.training.batches.fit_data import fit_data
from conceptlens.training.stage import Stage


def check_fits(stage: StageConfig, pipeline: Pipeline) -> None:
    """Refuse an encoder that learns, as what is fitted means nothing once its vectors change, or that lacks texts."""
    if any(parameter.requires_grad for parameter in pipeline.encoder.parameters()):
        raise UserError(
            f"training.stages ({stage.name}): a stage of the kind `fit` needs a frozen encoder, but some of it would "
            "learn. Set `encoder.train: none`."
        )
    if pipeline.model.fit_targets == OWN and pipeline.encoder.text is None:
        raise UserError(
            f"method.targets: {pipeline.encoder.name} has no text tower of its own, so its images cannot be compared "
            "with texts. Use builtin/vit or an open_clip/… encoder, or name one in method.targets."
        )


class FitStage(Stage):
    """`ConceptModel.fit`, once. It counts as one epoch."""

    @property
    def last(self) -> bool:
        return self.position.stage >= len(self.training.stages) - 1

    def run(self) -> None:
        session, position = self.session, self.position
        if position.epoch:
            return
        processes, pipeline, concepts = session.processes, session.pipeline, session.blueprint.concepts
        numbers: dict[str, float] = {}
        dropped: dict[str, str] = {}
        if pipeline.model.fits_images:
            with fit_data(session) as data:
                if processes.main:
                    numbers = pipeline.model.fit(data)
            (dropped, *_) = processes.gather(data.dropped)
        keep = [at for at, name in enumerate(concepts.names) if name not in dropped]
        if dropped and not processes.main:
            pipeline.model.keep(keep)
        pipeline.to(processes.device)
        processes.agree(pipeline, buffers=True)
        session.choose(concepts.subset(keep), dropped)
        position.epoch, position.total_epochs = 1, position.total_epochs + 1
        session.progress.losses = {}
        self.record("train", kind="fit", stage=self.stage.name, **numbers)
        self.validate(start=not self.last)  # a later stage is there to change the model: one of its epochs is chosen
        self.save()
