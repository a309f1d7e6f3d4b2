"""Predictions of shards: those of single files, resumed part by part, the same from several processes."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.explanations import predict_parts as module
from conceptlens.explanations.predict_parts import PredictedParts

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def run(slots_run: Path) -> Path:
    return slots_run


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two shards of three and two images, of which one is none; the same images as files beside them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    generator = np.random.default_rng(0)
    for shard, numbers in enumerate(([0, 1, 2], [3, 4])):
        with tarfile.open(tmp_path / f"s-{shard}.tar", "w") as tar:
            for number in numbers:
                buffer = io.BytesIO()
                Image.fromarray(generator.integers(0, 256, (40, 40, 3), np.uint8)).save(buffer, "PNG")
                data = b"no image" if number == 4 else buffer.getvalue()
                (tmp_path / f"{number}.png").write_bytes(data)
                info = tarfile.TarInfo(f"{number}.png")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return f"{tmp_path}/s-*.tar"


def predicted(run: Path, images: str, out: Path, **options: object) -> PredictedParts:
    result = cl.predict(run, [images], out=out, **options)  # type: ignore[arg-type]
    assert isinstance(result, PredictedParts)
    return result


def test_shards_give_what_files_give(run: Path, shards: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    result = predicted(run, shards, out)
    rows = [row for part in (0, 1) for row in pq.read_table(out / f"part-{part:05d}.parquet").to_pylist()]
    assert [row["image"] for row in rows] == ["s-0/0", "s-0/1", "s-0/2", "s-1/3", "s-1/4"]
    assert "not an image" in rows[4]["error"]
    single = cl.predict(run, [tmp_path / f"{number}.png" for number in range(4)])
    for row, item in zip(rows[:4], single, strict=True):  # type: ignore[arg-type]
        assert row["class"] == item.predicted
        assert {name: row[f"p({name})"] for name in item.probabilities} == pytest.approx(item.probabilities, abs=1e-6)
        for group, values in item.concepts.items():
            for value, share in values.items():
                assert row[f"{group}: {value}"] == pytest.approx(share, abs=1e-6)
        assert row["unlike_training"] == item.unlike_training
    assert (result.summary.images, result.summary.errors, result.new) == (4, 1, 2)
    (out / "part-00001.json").unlink()
    before = (out / "part-00000.parquet").stat().st_mtime_ns
    again = predicted(run, shards, out)
    assert again.new == 1
    assert again.summary.to_dict() == result.summary.to_dict()
    assert (out / "part-00000.parquet").stat().st_mtime_ns == before
    monkeypatch.setattr(module, "FILES", 2)
    files = predicted(run, str(tmp_path), tmp_path / "files")
    assert files.parts == 3
    assert files.summary.classes == result.summary.classes


def test_other_images_in_the_same_folder_are_refused(run: Path, shards: str, tmp_path: Path) -> None:
    predicted(run, shards, tmp_path / "out")
    with pytest.raises(UserError, match="another model or other images"):
        predicted(run, str(tmp_path / "s-0.tar"), tmp_path / "out")
    with pytest.raises(UserError, match="expected a folder"):
        cl.predict(run, [shards], out=tmp_path / "x.csv")
    with pytest.raises(UserError, match="holds other files"):
        predicted(run, shards, tmp_path)


def test_a_damaged_shard_does_not_stop_the_others(
    run: Path, shards: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s-0.tar").write_bytes(b"torn" * 200)
    result = predicted(run, shards, tmp_path / "out")
    assert [line.split(":")[0] for line in result.failed] == ["part-00000"]
    assert "s-0.tar: cannot be read" in capfd.readouterr().err
    assert (result.summary.images, result.new) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_several_processes(run: Path, shards: str, tmp_path: Path, engine: str) -> None:
    pytest.importorskip("psutil" if engine == "local" else "ray")
    alone = predicted(run, shards, tmp_path / "alone")
    result = predicted(run, shards, tmp_path / "out", jobs=2, engine=engine)
    assert not result.failed
    assert result.summary.to_dict() == alone.summary.to_dict()
    for part in ("part-00000.parquet", "part-00001.parquet"):
        assert pq.read_table(tmp_path / "out" / part).equals(pq.read_table(tmp_path / "alone" / part))
