"""DICOM files written here, against windows worked by hand."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.check import check_data
from conceptlens.data.images.read import MAX_PIXELS, examine_image, open_image
from conceptlens.data.sources.folder import Folder
from conceptlens.recipes.schema import DataConfig

pydicom = pytest.importorskip("pydicom")
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset  # noqa: E402
from pydicom.encaps import encapsulate  # noqa: E402
from pydicom.uid import (  # noqa: E402
    CTImageStorage,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
    JPEGLosslessSV1,
    RLELossless,
)

HU = np.array([[0, 864], [1024, 1424]], dtype=np.uint16)  # stored; minus 1024: -1024, -160, 0, 400


def dicom(pixels: npt.NDArray[Any], syntax: Any = ExplicitVRLittleEndian, **tags: Any) -> bytes:
    """A DICOM file of these pixels, (H, W), (frames, H, W) or (H, W, 3) with SamplesPerPixel=3."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    data = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    color = tags.get("SamplesPerPixel", 1) == 3
    shape = pixels.shape[-3:-1] if color else pixels.shape[-2:]
    data.SOPClassUID, data.SOPInstanceUID, data.Modality = CTImageStorage, "1.2.3", "CT"
    data.Rows, data.Columns = shape
    data.BitsAllocated = 8 * pixels.dtype.itemsize
    data.BitsStored, data.HighBit = data.BitsAllocated, data.BitsAllocated - 1
    data.PixelRepresentation = int(pixels.dtype.kind == "i")
    data.SamplesPerPixel = 1
    data.PhotometricInterpretation = "MONOCHROME2"
    order = ">" if syntax == ExplicitVRBigEndian else "<"
    data.PixelData = pixels.astype(pixels.dtype.newbyteorder(order)).tobytes()
    for tag, value in tags.items():
        setattr(data, tag, value)
    if data.BitsAllocated > 8:
        data["PixelData"].VR = "OW"
    buffer = io.BytesIO()
    pydicom.dcmwrite(buffer, data, enforce_file_format=True)
    return buffer.getvalue()


def gray(data: bytes, **settings: Any) -> list[int]:
    image = np.asarray(open_image(data, name="it", **settings))
    assert (image == image[..., :1]).all()
    found: list[int] = image[..., 0].reshape(-1).tolist()
    return found


def test_rescale_and_window() -> None:
    # Low -160 - 0.5 + 0.5 = -160, high 239 (PS3.3 C.11.2.1.2.1): 255 · 160 / 399 = 102.
    ct = {"RescaleSlope": 1, "RescaleIntercept": -1024, "WindowCenter": 40, "WindowWidth": 400}
    assert gray(dicom(HU, **ct)) == [0, 0, 102, 255]
    exact = {**ct, "VOILUTFunction": "LINEAR_EXACT"}  # -160 to 240: 255 · 160 / 400
    assert gray(dicom(HU, **exact)) == [0, 0, 102, 255]
    narrow = {**ct, "WindowWidth": 2, "WindowCenter": 0.5}  # -0.5 to 0.5: the value 0 is its middle
    assert gray(dicom(HU, **narrow)) == [0, 0, 128, 255]
    sigmoid = {**ct, "VOILUTFunction": "SIGMOID", "WindowCenter": 0, "WindowWidth": 640}
    assert gray(dicom(HU, **sigmoid)) == [0, 69, 128, 236]  # 255 / (1 + e^(-4 v / 640))
    assert gray(dicom(HU, **{**ct, "RescaleSlope": 2, "RescaleIntercept": -2048})) == [0, 0, 102, 255]


def test_the_first_of_several_windows() -> None:
    several = {"RescaleIntercept": -1024, "RescaleSlope": 1, "WindowCenter": [40, -600], "WindowWidth": [400, 1500]}
    assert gray(dicom(HU, **several)) == [0, 0, 102, 255]


@pytest.mark.parametrize("place", ["SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"])
def test_enhanced_files_keep_them_elsewhere(place: str) -> None:
    rescale, window, groups = Dataset(), Dataset(), Dataset()
    rescale.RescaleSlope, rescale.RescaleIntercept, rescale.RescaleType = 1, -1024, "HU"
    window.WindowCenter, window.WindowWidth = 40, 400
    groups.PixelValueTransformationSequence, groups.FrameVOILUTSequence = [rescale], [window]
    assert gray(dicom(np.stack([HU, HU[::-1]]), NumberOfFrames=2, **{place: [groups]})) == [0, 0, 102, 255]


def test_monochrome1_is_inverted() -> None:
    tags = {"PhotometricInterpretation": "MONOCHROME1", "RescaleSlope": 1, "RescaleIntercept": -1024}
    assert gray(dicom(HU, **tags, WindowCenter=40, WindowWidth=400)) == [255, 255, 153, 0]
    assert gray(dicom(HU, **tags)) == [255 - value for value in gray(dicom(HU))]


def test_without_a_window() -> None:
    assert gray(dicom(HU)) == [0, 155, 183, 255]  # 255 · v / 1424
    assert gray(dicom(np.array([[10, 20]], np.uint8))) == [10, 20]  # eight bits are shown as they are
    assert gray(dicom(np.array([[-5, 5]], np.int16))) == [0, 255]
    assert gray(dicom(HU, WindowCenter=40, WindowWidth=0)) == gray(dicom(HU))  # nonsense is no window


def test_the_recipe_s_window_wins() -> None:
    ct = {"RescaleSlope": 1, "RescaleIntercept": -1024, "WindowCenter": 40, "WindowWidth": 400}
    assert gray(dicom(HU, **ct), window=(-1024.0, 400.0)) == [0, 155, 183, 255]
    assert gray(dicom(HU, **ct), window="range") == [0, 155, 183, 255]


def test_a_table_of_values_of_interest() -> None:
    table = Dataset()
    table.LUTDescriptor = [4, 0, 8]
    table.LUTData = np.array([0, 10, 120, 200], "<u2").tobytes()
    table["LUTData"].VR = "OW"
    found = gray(dicom(np.array([[0, 1], [2, 3]], np.uint8), VOILUTSequence=[table]))
    assert found == [0, 13, 153, 255]  # 255 · table / 200


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian])
def test_ways_of_storing(syntax: Any) -> None:
    assert gray(dicom(HU, syntax)) == gray(dicom(HU))


def test_compressed_that_can_be_read() -> None:
    data = pydicom.dcmread(io.BytesIO(dicom(HU)))
    data.compress(RLELossless)
    buffer = io.BytesIO()
    data.save_as(buffer)
    assert gray(buffer.getvalue()) == gray(dicom(HU))
    jpeg = io.BytesIO()
    Image.new("L", (16, 16), 77).save(jpeg, "JPEG")
    tags = {"PixelData": encapsulate([jpeg.getvalue()])}
    assert set(gray(dicom(np.zeros((16, 16), np.uint8), JPEGBaseline8Bit, **tags))) == {77}


def test_color() -> None:
    pixels = np.array([[[255, 0, 0], [0, 128, 255]]], np.uint8)
    tags = {"SamplesPerPixel": 3, "PlanarConfiguration": 0, "PhotometricInterpretation": "RGB"}
    data = dicom(pixels, **tags)
    assert np.asarray(open_image(data, name="it")).tolist() == pixels.tolist()
    deep = dicom(pixels.astype(np.uint16) * 256, **tags)
    assert np.asarray(open_image(deep, name="it")).tolist() == pixels.tolist()
    assert not examine_image(data, name="it")[1].gray
    palette: dict[str, Any] = {"PhotometricInterpretation": "PALETTE COLOR"}
    for color, values in (("Red", [0, 255]), ("Green", [10, 0]), ("Blue", [20, 0])):
        palette[f"{color}PaletteColorLookupTableDescriptor"] = [2, 0, 16]
        palette[f"{color}PaletteColorLookupTableData"] = (256 * np.array(values, "<u2")).astype("<u2").tobytes()
    image = open_image(dicom(np.array([[0, 1]], np.uint8), **palette), name="it")
    assert np.asarray(image).tolist() == [[[0, 10, 20], [255, 0, 0]]]


def test_facts_and_the_first_frame(tmp_path: Path) -> None:
    frames = dicom(np.stack([HU, HU[::-1]]), NumberOfFrames=2)
    facts = examine_image(frames, name="it")[1]
    assert (facts.width, facts.height, facts.gray, facts.deep, facts.frames) == (2, 2, True, True, 2)
    assert facts.mode == "DICOM MONOCHROME2"
    assert gray(frames) == gray(dicom(HU))
    (tmp_path / "named-without-suffix").write_bytes(frames)
    assert open_image(tmp_path / "named-without-suffix", name="it").size == (2, 2)
    with (tmp_path / "named-without-suffix").open("rb") as file:
        assert open_image(file, name="it").size == (2, 2)


def test_what_cannot_be_read_is_told() -> None:
    whole = dicom(HU)
    cases = [
        (dicom(HU, JPEGLosslessSV1, PixelData=encapsulate([b"1234"])), r"compressed \(JPEG Lossless.*pylibjpeg"),
        (dicom(HU, DeflatedExplicitVRLittleEndian), "deflated"),
        (whole[:-4], "damaged or cut short"),
        (whole[:140], "damaged"),
        (b"\0" * 128 + b"DICM", "damaged"),
        (b"\0" * 128 + b"DICM" + b"\xff" * 400, "damaged|no image"),
        (dicom(HU, Rows=30_000, Columns=30_000), "30000 × 30000 pixels are too many"),
        (dicom(HU, Rows=0), "holds no image"),
    ]
    assert MAX_PIXELS < 30_000**2
    for data, words in cases:
        with pytest.raises(UserError, match=words) as caught:
            open_image(data, name="scan.dcm")
        assert str(caught.value).startswith("scan.dcm: ")
        assert "\n" not in str(caught.value)


def test_every_cut_is_a_user_error() -> None:
    whole = dicom(HU)
    for length in range(0, len(whole) - 1, 7):
        with pytest.raises(UserError):
            open_image(whole[:length], name="cut.dcm")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    data = dicom(HU)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(UserError, match=r"pip install 'conceptlens\[dicom\]'"):
        open_image(data, name="it")


def test_a_folder_of_scans(tmp_path: Path, cells: ConceptSet) -> None:
    for place, name in enumerate(("Neutrophil", "Monocyte")):
        (tmp_path / name).mkdir()
        for number in range(8):
            values = np.random.default_rng([place, number]).integers(0, 2000, (40, 40)).astype(np.uint16)
            (tmp_path / name / f"{number}.dcm").write_bytes(dicom(values))
    source = Folder(tmp_path, DataConfig(source=str(tmp_path), window=(0.0, 100000.0)), cells)
    assert len(source) == 16
    assert np.asarray(source.read(0)).max() == 5  # 255 · 2000 / 100000
    report = check_data(DataConfig(source=str(tmp_path)), cells, quiet=True)
    assert "16-bit" in {finding.code for finding in report.findings}
    assert not [finding for finding in report.findings if finding.code == "unreadable"]
