"""A bill of materials (CycloneDX, JSON) of what `pip install --require-hashes -r requirements/runtime.txt` brings.

python scripts/sbom.py FILE. Needs cyclonedx-bom (requirements/release.txt).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = ROOT / "src" / "conceptlens" / "core" / "version.py"


def main(out: Path) -> None:
    words = ["cyclonedx-py", "requirements", "requirements/runtime.txt", "--pyproject", "pyproject.toml"]
    words += ["--mc-type", "library", "--output-reproducible", "--of", "JSON"]
    made = json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    (version,) = re.findall(r'__version__ = "([^"]+)"', VERSION.read_text("utf-8"))
    # The tool knows neither the version, which pyproject.toml leaves to the code, nor which lines are ours.
    made["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/conceptlens@{version}"}
    for component in made["components"]:
        component.pop("description", None)  # the line of the lock, hashes and all, which stand below as well
    out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
