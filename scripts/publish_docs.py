"""Put a built site beside those of other versions: `python scripts/publish_docs.py build/docs SITE NAME`.

SITE is a checkout of the branch that is served. NAME is `latest`, or a release as `0.2.0` or `v0.2.0`, which keeps its
pages. `versions.json` lists all for the site's menu, and `index.html` leads to the newest release, or to `latest`.
"""

import json
import re
import shutil
import sys
from pathlib import Path

LATEST = "latest"
VERSION = re.compile(r"\d+(\.\d+)+")


def publish(built: Path, site: Path, name: str) -> list[str]:
    """The names of all versions afterwards, in the order of the menu."""
    name = name.removeprefix("v")
    if name != LATEST and not VERSION.fullmatch(name):
        raise SystemExit(f"expected {LATEST} or a version as 0.2.0, found {name!r}")
    shutil.rmtree(site / name, ignore_errors=True)
    shutil.copytree(built, site / name, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    folders = {path.parent.name for path in site.glob("*/index.html")}
    releases = sorted(
        (folder for folder in folders if VERSION.fullmatch(folder)),
        key=lambda folder: [int(part) for part in folder.split(".")],
        reverse=True,
    )
    names = [*releases, *({LATEST} & folders)]
    (site / "versions.json").write_text(json.dumps(names), "utf-8")
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={names[0]}/index.html">\n', "utf-8")
    (site / ".nojekyll").touch()  # folders that begin with _ are served as well
    return names


if __name__ == "__main__":
    print(", ".join(publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
