"""Values that have the right type and still cannot be meant."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.recipes.schema import Recipe

LARGEST = 1e15  # of any number
MOST = 1_000_000  # epochs, images of a batch
PARTS = ("encoder", "regularizer", "model")  # of a pipeline, by which a stage says what learns


def _numbers(node: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a recipe with its dotted key."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _numbers(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for value in node:
            yield from _numbers(value, path)
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path, node


def check_recipe(recipe: Recipe, where: str) -> None:
    """Raise a `UserError` for the first value out of range, naming the key, the range and what came."""
    data, encoder, training, metrics = recipe.data, recipe.encoder, recipe.training, recipe.metrics
    augment = training.augment

    def need(key: str, fine: bool, words: str, came: object) -> None:
        if not fine:
            raise UserError(f"{where}: {key}: expected {words}, found {came!r}.")

    for key, number in _numbers(asdict(recipe)):
        need(key, math.isfinite(number), "a finite number", number)
        need(key, abs(number) <= LARGEST, f"a number that can be meant, at most {LARGEST:.0e}", number)
    split = data.split
    need("data.source", bool(data.source.strip()), "the name of a data set, a folder or a table", data.source)
    need("data.split.val", 0 < split.val < 1, "a share between 0 and 1", split.val)
    need("data.split.test", 0 <= split.test < 1, "a share from 0 to below 1", split.test)
    need(
        "data.split",
        split.val + split.test < 1,
        "val + test below 1, so that images are left for training",
        split.val + split.test,
    )
    need("data.split.folds", split.folds == 0 or split.folds >= 2, "0 (off) or 2 and more", split.folds)
    need(
        "data.split.fold",
        0 <= split.fold < max(split.folds, 1),
        "a fold's number, from 0 to below data.split.folds",
        split.fold,
    )
    need(
        "data.split.val",
        not split.folds or split.val + 1 / split.folds < 1,
        "a share that leaves images for training beside the fold that tests",
        split.val,
    )
    need("data.folds", data.folds == 0 or data.folds >= 2, "0 (off) or 2 and more", data.folds)
    need(
        "data.split.folds",
        not (data.folds and split.folds),
        "0 where data.folds divides the images; data.split.fold belongs to data.split.folds",
        split.folds,
    )
    need(
        "data.folds",
        not data.folds or split.val + 1 / data.folds < 1,
        "so many that images are left for training beside data.split.val",
        data.folds,
    )
    need("data.limit", data.limit is None or data.limit > 0, "a number of images above 0", data.limit)
    need(
        "data.window",
        isinstance(data.window, str) or data.window[0] < data.window[1],
        "file, range, percentile, or two numbers, the smaller first",
        data.window,
    )
    need("data.cache_mb", data.cache_mb >= 0, "0 or more megabytes", data.cache_mb)
    need("data.workers", 0 <= data.workers <= 256, "0 to 256", data.workers)
    size = encoder.image_size
    need("encoder.lora", 0 <= encoder.lora <= 1024, "0 (off) to 1024", encoder.lora)
    need("encoder.image_size", size is None or 16 <= size <= 4096, "16 to 4096 pixels", size)
    need(
        "encoder.train",
        isinstance(encoder.train, str) or encoder.train >= 1,
        "all, none, or a number of blocks above 0",
        encoder.train,
    )
    for key in ("epochs", "batch_size", "accumulate", "validate_every"):
        value = getattr(training, key)
        need(f"training.{key}", value in (None, "auto") or value >= 1, "1 or more", value)
        need(f"training.{key}", value in (None, "auto") or value <= MOST, f"at most {MOST:,}", value)
    need(
        "training.accumulate",
        training.batch_size % training.accumulate == 0,
        f"a divisor of the batch size {training.batch_size}",
        training.accumulate,
    )
    rates = [("training.learning_rate", training.learning_rate), ("encoder.learning_rate", encoder.learning_rate)]
    rates += [(f"training.stages ({stage.name}).learning_rate", stage.learning_rate) for stage in training.stages]
    for key, rate in rates:
        need(key, rate is None or 0 < rate < 10, "a rate above 0, below 10", rate)
    need("training.final_rate", 0 < training.final_rate <= 1, "above 0, at most 1", training.final_rate)
    for key in ("weight_decay", "warmup", "clip", "patience", "checkpoint_every", "rank_every", "rank_images"):
        value = getattr(training, key)
        need(f"training.{key}", value is None or value >= 0, "0 or more", value)
    need("training.ema", 0 <= training.ema < 1, "0 (off) or a decay below 1", training.ema)
    need(
        "training.betas", all(0 <= beta < 1 for beta in training.betas), "two numbers from 0 to below 1", training.betas
    )
    threads = training.threads
    need("training.threads", threads is None or 1 <= threads <= 1024, "1 to 1024", threads)
    need("training.augment.crop", 0 < augment.crop <= 1, "an area above 0, at most 1", augment.crop)
    for key in ("brightness", "contrast", "saturation"):
        need(f"training.augment.{key}", 0 <= getattr(augment, key) < 1, "0 to below 1", getattr(augment, key))
    need("training.augment.rotate", 0 <= augment.rotate <= 180, "0 to 180 degrees", augment.rotate)
    need(
        "training.loss.label_smoothing",
        0 <= training.loss.label_smoothing < 1,
        "0 to below 1",
        training.loss.label_smoothing,
    )
    balance = training.loss.class_balance
    need(
        "training.loss.class_balance",
        isinstance(balance, str) or (all(weight >= 0 for weight in balance) and any(balance)),
        "weights of 0 or more, not all of them 0",
        balance,
    )
    for key in ("class_weight", "concept_weight"):
        need(f"training.loss.{key}", getattr(training.loss, key) >= 0, "0 or more", getattr(training.loss, key))
    for stage in training.stages:
        key = f"training.stages ({stage.name})"
        need(
            f"{key}.epochs",
            stage.epochs is None or stage.epochs == "auto" or 1 <= stage.epochs <= MOST,
            f"1 or more, at most {MOST:,}",
            stage.epochs,
        )
        weight = stage.class_weight
        need(f"{key}.class_weight", weight is None or weight >= 0, "0 or more", weight)
        need(f"{key}.train", bool(stage.train), "what learns, such as [model]", stage.train)
        for part in stage.train:
            if part.partition(".")[0] not in PARTS:
                raise unknown_name("part in training.stages", part, PARTS)
    need("metrics.bootstrap", 0 <= metrics.bootstrap <= 100_000, "0 to 100,000", metrics.bootstrap)
    need("metrics.confidence", 0 < metrics.confidence < 1, "between 0 and 1", metrics.confidence)
    need("metrics.bins", metrics.bins >= 2, "2 or more", metrics.bins)
    need("metrics.rank_images", metrics.rank_images >= 0, "0 or more", metrics.rank_images)
    need("seed", 0 <= recipe.seed < 2**31, "a whole number from 0 to 2147483647", recipe.seed)
