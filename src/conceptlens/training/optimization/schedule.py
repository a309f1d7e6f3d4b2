"""Learning rates as a pure function of the step: nothing to save, nothing to restore."""

import math

from conceptlens.recipes import TrainingConfig


def rate(config: TrainingConfig, step: int, steps_per_epoch: int, epochs: int) -> float:
    """The rate at a step of a stage, relative to the peak.

    Warm-up: linear, or e^{10(e/w − 1)} as the published code. Then: exponential decay to `final_rate` (the paper names
    no constant), (1 − e/E)^0.9 over the whole training as the published code, cosine to `final_rate`, or constant.
    """
    epoch = step // steps_per_epoch if config.schedule_by == "epoch" else (step + 1) / steps_per_epoch
    warmup = min(config.warmup, epochs)
    if epoch < warmup:
        return (
            math.exp(10 * (epoch / warmup - 1)) if config.warmup_shape == "exponential" else max(epoch, 1e-3) / warmup
        )
    progress = min((epoch - warmup) / max(epochs - warmup, 1e-9), 1.0)
    if config.schedule == "exponential":
        return float(config.final_rate**progress)
    if config.schedule == "polynomial":
        at_end_of_warmup = config.schedule_by == "epoch" and epoch == warmup and warmup > 0
        return 1.0 if at_end_of_warmup else (1 - min(epoch / epochs, 1 - 1e-6)) ** 0.9
    if config.schedule == "cosine":
        return config.final_rate + (1 - config.final_rate) * (1 + math.cos(math.pi * progress)) / 2
    return 1.0
