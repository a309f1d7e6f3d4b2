"""What README.md says in its table, from the draws; `scripts/evidence_check.py` looks for each row."""

import json
from pathlib import Path

from make import FILE, table

HERE = Path(__file__).parent


def statements() -> list[str]:
    """Rows of the table, and the sentence that counts honest readers and leaks."""
    rows = json.loads(FILE.read_text("utf-8"))
    return [line.strip() for line in table(rows).splitlines() if not line.startswith("| ---")]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
