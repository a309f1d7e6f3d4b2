"""What README.md says in sentences, from the rows."""

import json

import leveled  # a neighbor
import numpy as np


def lost(name: str, loss: str) -> list[float]:
    """Points of class accuracy that go when the means are leveled, by seed."""
    return [
        100 * (row["class"] - row["without"]) for row in leveled.read() if (row["method"], row["loss"]) == (name, loss)
    ]


def statements() -> list[str]:
    joint = ("cbm", "coop-cbm", "mvp-cbm")
    means = {loss: [float(np.mean(lost(name, loss))) for name in joint] for loss in leveled.LOSSES}
    every = {loss: [value for name in joint for value in lost(name, loss)] for loss in leveled.LOSSES}
    control = [abs(value) for loss in leveled.LOSSES for value in lost("cbm, no class gradient", loss)]
    return [
        f"{min(means['group']):.0f} to {max(means['group']):.0f} points of class accuracy on average "
        f"({min(every['group']):.0f} to {max(every['group']):.0f} by seed)",
        f"at most {max(every['bce']):.1f} points in any of {len(every['bce'])} trainings",
        f"at most {max(control):.1f} points in {len(control)} trainings",
    ]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
