"""Expected calibration error (Naeini et al., 2015): how far stated confidence is from the share that comes true."""

from typing import Literal

import numpy as np
import numpy.typing as npt


def expected_calibration_error(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, bins: int = 15, spacing: Literal["width", "mass"] = "width"
) -> float | None:
    """Mean over bins of |mean confidence − share correct|, weighted by the bins' sizes.

    Args:
        confidence: (N,) stated probabilities in [0, 1].
        correct: (N,) outcomes, 0 or 1.
        bins: Number of bins.
        spacing: `width` cuts [0, 1] into equal intervals, each open at its lower end; `mass` puts equally many
            predictions into each bin, in order of confidence.

    Returns:
        The error, or None without predictions.
    """
    stated, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if not len(stated):
        return None
    if spacing == "width":
        index = width_bins(stated, bins)
    else:
        index = np.empty(len(stated), dtype=np.int64)
        index[np.argsort(stated, kind="stable")] = np.arange(len(stated)) * bins // len(stated)
    gaps = np.bincount(index, stated - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(stated))


def width_bins(stated: npt.NDArray[np.float64], bins: int) -> npt.NDArray[np.int64]:
    """The bin (N,) of each probability where [0, 1] is cut into equal intervals, each open at its lower end."""
    return np.asarray(np.clip(np.ceil(stated * bins).astype(np.int64) - 1, 0, bins - 1))


def top_label_error(
    probabilities: npt.NDArray[np.float64],
    labels: npt.NDArray[np.int64],
    *,
    bins: int = 15,
    spacing: Literal["width", "mass"] = "width",
) -> float | None:
    """Calibration error of the most probable value: probabilities (N, V), labels (N,)."""
    if not len(labels):
        return None
    correct = probabilities.argmax(1) == labels
    return expected_calibration_error(probabilities.max(1), correct, bins=bins, spacing=spacing)
