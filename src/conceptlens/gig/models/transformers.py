"""`transformers/…`: an image classifier of transformers, from the hub or a folder."""

import torch

from conceptlens.core.errors import UserError
from conceptlens.gig.models.loaded import FRESH, Asked, LoadedModel, numbered
from conceptlens.gig.models.own import count_outputs
from conceptlens.gig.preprocessing import Preprocessing, chosen


def open_transformers(word: str, asked: Asked) -> LoadedModel:
    from conceptlens.encoders.transformers.encoder import image_side, load_published
    from conceptlens.encoders.transformers.published import resolve, transformers

    if asked.weights not in (None, FRESH):
        raise UserError(f"--weights: name the folder with the weights, transformers/local-dir:FOLDER, or {FRESH}.")
    package, published = transformers(), resolve(word)
    try:
        config = package.AutoConfig.for_model(**published.config)
        model_class = package.AutoModelForImageClassification._model_mapping[type(config)]
    except (KeyError, ValueError):
        raise UserError(
            f"{word}: transformers has no image classifier of the type {published.config['model_type']!r}. A model "
            "without classes can be an encoder; train a `black-box` run with it and decompose that."
        ) from None
    if asked.names:
        config.num_labels = len(asked.names)
    if asked.weights == FRESH:
        with torch.random.fork_rng():
            torch.manual_seed(asked.seed)
            model = model_class(config).eval()
    else:
        model = load_published(model_class, published, config, spare=())
    size = asked.image_size or image_side(published.images, config)
    labels = asked.names or [str(config.id2label[number]) for number in sorted(config.id2label)]
    images = published.images
    own = None
    if "image_mean" in images and "image_std" in images:
        own = Preprocessing(tuple(images["image_mean"]), tuple(images["image_std"]), "its preprocessor_config.json")
    return LoadedModel(
        name=word,
        module=model,
        image_size=size,
        outputs=numbered(count_outputs(model, word, size), labels, word),
        preprocessing=chosen(asked.normalize, own),
    )
