"""PF-CBM's bench on a CPU at a small size: every number is written down, also one by one."""

import subprocess
import sys
from pathlib import Path

import pytest

from conceptlens.core.files import read_json
from tests import ROOT

BENCH = ROOT / "bench" / "pf_cbm.py"
SMALL = ["--device", "cpu", "--images", "12", "--batch", "4", "--patches", "16", "--width", "8", "--repeats", "1"]


@pytest.mark.slow
def test_epoch_and_attention(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    words = [sys.executable, str(BENCH), "epoch", "attention", *SMALL, "--json", str(out)]
    printed = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
    found = read_json(out)
    assert found["epoch"]["tokens_gb"] == 12 * 16 * 8 * 2 / 2**30
    assert found["epoch"]["ratio"] == found["epoch"]["seconds"] / found["epoch"]["copy_seconds"]
    ways = ("ours", "sdpa", "sdpa_learning_bias", "projected")
    assert all(found["attention"][way] > 0 for way in ways)
    for way in ways[1:]:
        assert found["attention"][f"ours_over_{way}"] == found["attention"]["ours"] / found["attention"][way]
    assert printed[0].startswith("epoch tokens_gb")
    assert len(printed) >= 8
