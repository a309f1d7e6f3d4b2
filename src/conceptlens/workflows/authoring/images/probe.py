"""A linear probe of frozen features: held-out scores of each concept, by ridge regression in folds."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
RIDGE = 0.1  # of the features' mean variance: they are many and images few


def held_out_scores(
    features: Floats, labels: npt.NDArray[np.int8], fold: npt.NDArray[np.int64], ridge: float = RIDGE
) -> Floats:
    """Scores (N, K) of each concept by a model that has not seen the image's fold.

    Args:
        features: (N, D).
        labels: (N, K) of 0, 1, negative for unknown: left out of fitting, scored all the same.
        fold: (N,), which part each image is held out with.
        ridge: Strength of the penalty.

    Returns:
        Regression on ±1; NaN for a concept that has only one label outside a fold.
    """
    scores = np.full(labels.shape, np.nan)
    for part in np.unique(fold):
        train, test = fold != part, fold == part
        mean = features[train].mean(0)
        inside, outside = features[train] - mean, features[test] - mean
        penalty = ridge * max(float((inside**2).mean()), 1e-12) * len(inside)
        patterns: dict[bytes, list[int]] = {}  # concepts with the same known images share a factorization
        for k in range(labels.shape[1]):
            patterns.setdefault((labels[train, k] >= 0).tobytes(), []).append(k)
        for mask, columns in patterns.items():
            known = np.frombuffer(mask, dtype=bool)
            rows, given = inside[known], labels[train][known][:, columns]
            if not len(rows):
                continue
            target = 2.0 * (given == 1) - 1
            center = target.mean(0)
            gram = rows.T @ rows + penalty * np.eye(rows.shape[1])
            weights = np.linalg.solve(gram, rows.T @ (target - center))
            found = outside @ weights + center
            found[:, (given == given[:1]).all(0)] = np.nan
            scores[np.ix_(test, columns)] = found
    return scores
