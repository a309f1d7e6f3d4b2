"""What importing costs: a measure does not pull in the house."""

import subprocess
import sys

import pytest

COUNT = "import sys, {}; print(len([name for name in sys.modules if name.partition('.')[0] == 'conceptlens']))"


@pytest.mark.parametrize(
    "module",
    [
        "leakage.leakage",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("subgroups.failures", "localization.measures")),
    ],
)
def test_a_single_measure_loads_few_modules(module: str) -> None:
    code = COUNT.format(f"conceptlens.evaluation.{module}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = "import sys, conceptlens; print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
