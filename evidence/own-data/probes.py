"""What `encoder.name: auto` chose and chooses: a linear probe judged on validation images alone, and cross-validated.

    python evidence/own-data/probes.py DATA WORK

Three blocks of `run.py`, seed 0. Written to probes.json.
"""

import json
import sys
from pathlib import Path

from folders import ENCODERS, setup
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conceptlens.core.processes import Launched
from conceptlens.evaluation.classification.balanced import balanced_accuracy
from conceptlens.recipes.parse import load_recipe
from conceptlens.training.encoder_choice import probe
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session

BLOCKS = (("idrid", 100, 0), ("idrid", 300, 0), ("skin", 300, 0))


def main() -> None:
    rows = []
    for block in BLOCKS:
        file = setup(block, Path(sys.argv[1]), Path(sys.argv[2]))
        recipe = load_recipe(file, {"encoder": {"name": ENCODERS[0]}, "training": {"threads": 1}}, trusted=True)
        session = open_session(recipe, None, Launched(), Progress(quiet=True))
        train, val, labels = session.splits.train, session.splits.val, session.source.examples.labels
        for name in ENCODERS:
            known: dict[str, dict[int, object]] = {}
            both = probe(name, session.source, session.splits, recipe, known)  # type: ignore[arg-type]
            seen = known[name]
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, class_weight="balanced", C=0.1))
            model.fit([seen[index] for index in train.tolist()], labels[train])
            predicted = model.predict([seen[index] for index in val.tolist()])
            alone = balanced_accuracy(predicted, labels[val], int(labels.max()) + 1)
            row = {"set": block[0], "size": block[1], "seed": block[2], "encoder": name, "images": len(seen)}
            rows.append({**row, "validation": round(float(alone or 0), 5), "cross-validated": round(both, 5)})
            print(rows[-1], flush=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    (Path(__file__).parent / "probes.json").write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
