"""What README.md says in sentences, from the comparison; `scripts/evidence_check.py` looks for each piece."""

import json
from pathlib import Path

from conceptlens.core.files import read_json, stored

HERE = Path(__file__).parent


def statements() -> list[str]:
    """Means over three seeds, in percent."""
    found = read_json(stored(HERE / "results.json"))["data"][0]
    rows = {row["name"]: row for block in found["blocks"] for row in block["rows"]}

    def mean(name: str, measure: str = "concept.auc") -> str:
        return f"{100 * rows[name]['measures'][measure]['mean']:.1f}"

    made = [f"`cem` has the highest concept AUC ({mean('cem')})"]
    made += [f"`magnet-cbm` is at {mean('magnet-cbm')}", f"`dot-cbm` at {mean('dot-cbm')}"]
    made += [f"`mvp-cbm` at {mean('mvp-cbm')}", f"`explicd` at {mean('explicd')}"]
    seeds = [100 * value for value in rows["ivq-cbm"]["measures"]["concept.auc"]["by_training"]]
    made.append(f"({mean('ivq-cbm')}; {min(seeds):.0f} to {max(seeds):.0f} over seeds)")
    made.append(f"do *better* than the named ones ({mean('ivq-cbm (random text)')})")
    made.append(f"({mean('class token')} and {mean('class token (random text)')})")
    texts = [
        100 * rows[f"{name} (random text)"]["measures"]["class.accuracy"]["mean"]
        for name in ("pcbm-text", "lf-cbm", "labo")
    ]
    made.append(f"({min(texts):.1f} to {max(texts):.1f} %)")
    made.append(f"zero-shot concept AUC of {100 * found['zero_shot'][0]['auc']:.1f} stands")
    seconds = [job["seconds"] for job in read_json(HERE / "seconds.json")["jobs"] if "random-text" not in job["job"]]
    made.append(f"**{sum(seconds) / 120:.1f} minutes**")
    return made


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
