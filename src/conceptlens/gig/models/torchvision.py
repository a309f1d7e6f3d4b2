"""`torchvision/NAME`: a classifier of torchvision, which publishes pickles only: weights come from your own file."""

from pathlib import Path

import torch

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.gig.models.loaded import FRESH, Asked, LoadedModel, numbered
from conceptlens.gig.preprocessing import Preprocessing, chosen

PREFIX = "torchvision/"


def open_torchvision(word: str, asked: Asked) -> LoadedModel:
    from torchvision import models

    from conceptlens.encoders.weights_file import load_weights, read_weights

    short = word.removeprefix(PREFIX)
    known = models.list_models(module=models)
    if short not in known:
        raise unknown_name("model", word, [PREFIX + name for name in known])
    if asked.weights is None:
        raise UserError(
            f"{word}: torchvision publishes pickles only, which are never loaded. Save your model with safetensors "
            f"(`safetensors.torch.save_file(model.state_dict(), 'FILE.safetensors')`) and give --weights "
            f"FILE.safetensors, or take random weights (--weights {FRESH})."
        )
    published = models.get_model_weights(short).DEFAULT  # says how its images are prepared; nothing is loaded
    transform, classes = published.transforms(), list(published.meta["categories"])
    with torch.random.fork_rng():
        torch.manual_seed(asked.seed)
        count = len(asked.names) if asked.names else len(classes)
        model = models.get_model(short, weights=None, num_classes=count)
    names = asked.names
    if asked.weights != FRESH:
        hint = "Is it of this model? If it has other classes, name them with --classes FILE."
        load_weights(model, read_weights(Path(asked.weights)), source=asked.weights, hint=hint)
        repeated = {name for name in classes if classes.count(name) > 1}
        names = names or [f"{name} ({i})" if name in repeated else name for i, name in enumerate(classes)]
    config = Preprocessing(tuple(transform.mean), tuple(transform.std), "torchvision's transforms of the model")
    return LoadedModel(
        name=word,
        module=model.eval(),
        image_size=asked.image_size or int(transform.crop_size[0]),
        outputs=numbered(count, names, "--classes"),
        preprocessing=chosen(asked.normalize, config),
    )
