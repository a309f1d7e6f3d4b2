"""Scores that can be measured at all."""

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError


def finite(values: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.float64]:
    """The values (N, …) unchanged, or an error: no metric of NaN or infinity means anything."""
    bad = int((~np.isfinite(values)).reshape(len(values), -1).any(1).sum()) if values.size else 0
    if bad:
        raise UserError(
            f"The {what} of {bad} of {len(values)} images are not finite numbers, so nothing can be measured: the "
            "model has diverged. Train it again with a lower learning rate, gradient clipping or fp32."
        )
    return values
