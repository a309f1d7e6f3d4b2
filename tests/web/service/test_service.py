"""The prediction service: what it answers is what `predict` says; batches, limits, health, metrics."""

import asyncio
import io
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import conceptlens as cl
from conceptlens.explanations.subjects import Subject
from conceptlens.web.server.access import Access
from conceptlens.web.server.connections import GuardedConnection
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.serve import Options, log_no_requests
from conceptlens.web.service.app import ARRAY, Gate, Service, ServiceOptions, create_service, service_app
from conceptlens.web.service.batching import Batcher
from conceptlens.web.service.serve import serve_run

URL = "http://127.0.0.1"


def pictures(n: int) -> Any:
    return np.random.default_rng(n).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def png(array: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "png")
    return file.getvalue()


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_of(shape: bytes) -> bytes:
    """An array whose header says this of its shape: numpy has Python's own parser read it."""
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': " + shape
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.fixture(scope="module")
def model(evidence_run: Path) -> cl.TrainedModel:
    return cl.load(evidence_run)


@pytest.fixture(scope="module")
def client(model: cl.TrainedModel) -> Iterator[TestClient]:
    with TestClient(create_service(model, options=ServiceOptions(queue=64)), URL) as client:
        yield client


def test_files_and_arrays_are_answered_as_predict_does(client: TestClient, model: cl.TrainedModel) -> None:
    images = pictures(5)
    expected = model.predict(images)
    array = client.post("/v1/prediction", content=npy(images), headers={"content-type": ARRAY}).json()
    files = [("images", (f"{n}.png", png(image), "image/png")) for n, image in enumerate(images)]
    form = client.post("/v1/prediction", files=files).json()
    single = client.post("/v1/prediction", content=png(images[2]), headers={"content-type": "image/png"}).json()
    assert array["model"] == model.card.weights_hash
    assert [each["image"] for each in form["predictions"]] == [f"{n}.png" for n in range(5)]
    for found in (array["predictions"], form["predictions"]):
        for mine, theirs in zip(found, expected, strict=True):
            assert mine["predicted"] == theirs.names
            assert mine["probabilities"] == pytest.approx(theirs.probabilities, abs=1e-5)
            assert mine["prediction_set"] == theirs.prediction_set
            assert mine["unlike_training"] == theirs.unlike_training
            for group, values in theirs.concepts.items():
                assert mine["concepts"][group] == pytest.approx(values, abs=1e-5)
    assert single["predictions"][0]["probabilities"] == pytest.approx(expected[2].probabilities, abs=1e-5)


def test_the_score_is_above_one_where_an_image_is_unlike_the_training_images(client: TestClient) -> None:
    found = client.post("/v1/prediction", content=npy(pictures(8)), headers={"content-type": ARRAY}).json()
    for each in found["predictions"]:
        if each["unlike_training"] is None:
            assert each["out_of_distribution_score"] is None
        else:
            assert (each["out_of_distribution_score"] > 1) is each["unlike_training"]


def test_evidence_adds_up_to_the_logit(client: TestClient, model: cl.TrainedModel) -> None:
    body = client.post("/v1/prediction?evidence=true", content=png(pictures(1)[0])).json()
    (prediction,) = body["predictions"]
    assert list(prediction["evidence"]) == model.concept_names
    for each in prediction["evidence"].values():
        assert np.shape(each["map"]) == tuple(each["grid"])
        assert np.sum(each["map"]) + each["unplaced"] == pytest.approx(each["logit"], abs=1e-4)
    plain = client.post("/v1/prediction", content=png(pictures(1)[0])).json()
    assert plain["predictions"][0]["evidence"] is None


def test_one_bad_file_stops_no_other(client: TestClient) -> None:
    files = [("images", ("good.png", png(pictures(1)[0]))), ("images", ("bad.png", b"no image"))]
    good, bad = client.post("/v1/prediction", files=files).json()["predictions"]
    assert good["error"] is None
    assert "format is not supported" in bad["error"]
    assert bad["predicted"] is None


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"not an array", ARRAY, 400),
        (npy(np.zeros((2, 4, 4), np.uint8)), ARRAY, 400),
        (npy(np.zeros((65, 2, 2, 3), np.uint8)), ARRAY, 413),
        (b"\x93NUMPY", ARRAY, 400),
        (npy_of(b"(1L, 8L"), ARRAY, 400),
        (npy_of(b"-" * 5000 + b"1}"), ARRAY, 400),
    ],
)
def test_bad_bodies_are_refused_with_a_sentence(client: TestClient, body: bytes, kind: str, status: int) -> None:
    answer = client.post("/v1/prediction", content=body, headers={"content-type": kind})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_health_model_metrics_and_openapi(client: TestClient, model: cl.TrainedModel) -> None:
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}
    about = client.get("/v1/model").json()
    assert about["classes"] == model.classes
    assert about["evidence"] is True
    client.post("/v1/prediction", content=npy(pictures(3)), headers={"content-type": ARRAY})
    rows = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert int(rows['conceptlens_requests_total{status="200"}']) >= 1
    assert int(rows["conceptlens_batch_images_count"]) >= 1
    assert float(rows["conceptlens_batch_images_sum"]) >= 3
    assert int(rows['conceptlens_batch_images_bucket{le="+Inf"}']) == int(rows["conceptlens_batch_images_count"])
    assert {"/v1/prediction", "/healthz", "/readyz", "/metrics"} <= set(client.get("/openapi.json").json()["paths"])


def test_not_ready_before_the_model_is_read(model: cl.TrainedModel) -> None:
    service = Service(model, ServiceOptions())
    with TestClient(Gate(service_app(service), Access(Policy()), service.limits), URL) as client:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        refused = client.post("/v1/prediction", content=png(pictures(1)[0]))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_predictions_need_the_token_and_health_does_not(model: cl.TrainedModel) -> None:
    app = create_service(model, policy=Policy("a long enough token"), load=False)
    with TestClient(app, URL) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/model", headers={"accept": "application/json"}).status_code == 401
        assert client.post("/v1/prediction", content=b"").status_code == 401
        right = client.get("/v1/model", headers={"authorization": "Bearer a long enough token"})
        assert right.status_code == 200


class Counting:
    """Answers with the images' names, and keeps the size of each batch."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, images: Sequence[Subject], evidence: bool) -> list[Any]:
        self.sizes.append(len(images))
        if any(image.image == "broken" for image in images):
            raise ValueError("broken")
        return [(image.image, evidence) for image in images]


def run_batcher(requests: Sequence[tuple[Sequence[str], bool]], **options: Any) -> tuple[list[Any], list[int]]:
    compute = Counting()

    async def work() -> list[Any]:
        batcher = Batcher(compute, **{"size": 4, "wait": 0.01, "most": 100, "seen": lambda n, s: None, **options})
        asked = [batcher.answer([Subject(name) for name in names], evidence=maps) for names, maps in requests]
        try:
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            batcher.close()

    return asyncio.run(work()), compute.sizes


def test_requests_share_batches_and_each_gets_its_own() -> None:
    answers, sizes = run_batcher([([str(n)], False) for n in range(10)])
    assert answers == [[(str(n), False)] for n in range(10)]
    assert sizes == [4, 4, 2]


def test_a_large_request_is_cut_and_evidence_is_apart() -> None:
    answers, sizes = run_batcher([("abcdef", False), ("xy", True)], size=8)
    assert answers == [[(name, False) for name in "abcdef"], [("x", True), ("y", True)]]
    assert sizes == [6, 2]


def test_too_many_are_refused_and_an_error_stops_no_later_batch() -> None:
    answers, _ = run_batcher([("abc", False), ("de", False)], most=4)
    assert answers[0] == [(name, False) for name in "abc"]
    assert isinstance(answers[1], Problem)
    assert answers[1].status == 503
    answers, _ = run_batcher([(["broken"], False), (["fine"], False)], size=1)
    assert isinstance(answers[0], ValueError)
    assert answers[1] == [("fine", False)]


def test_whoever_waits_when_the_service_is_stopped_hears_so() -> None:
    async def stop() -> Any:
        batcher = Batcher(Counting(), size=4, wait=60, most=100, seen=lambda n, s: None)
        batcher.alone = False  # so that the image waits for others
        asked = asyncio.create_task(batcher.answer([Subject("a")], evidence=False))
        await asyncio.sleep(0.01)
        asked.cancel()
        (answer,) = await asyncio.gather(asked, return_exceptions=True)
        batcher.close()
        return answer

    answer = asyncio.run(stop())
    assert isinstance(answer, Problem)
    assert answer.status == 503


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v2", 404), ("POST", "/v1/prediction?evidence=x", 422)]
)
def test_every_error_has_the_documented_form(client: TestClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_arrays_that_lie_are_refused_and_words_name_no_files(client: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(png(pictures(1)[0]))
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "|u1", "fortran_order": False, "shape": (10**6, 10**6, 10**6, 3)}
    )
    several = io.BytesIO()
    np.savez(several, a=pictures(1), b=pictures(1))
    archive = several.getvalue()
    torn = archive[:-60] + bytes(30) + archive[-30:]  # its list of files is none
    for content in (file.getvalue(), archive, torn, b"", npy(np.array([str(secret)]))):
        answer = client.post("/v1/prediction", content=content, headers={"content-type": ARRAY})
        assert answer.status_code == 400, answer.text
        assert "secret" not in answer.text


def test_a_form_that_is_none_is_not_logged(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each such request would fill a disk."""

    def lines() -> int:
        caplog.clear()
        form = {"content-type": "multipart/form-data; boundary=edge"}
        assert client.post("/v1/prediction", content=b"--no edge\r\n", headers=form).status_code == 400
        return len(caplog.records)

    caplog.set_level(logging.WARNING, "python_multipart")
    assert lines() > 0
    log_no_requests()
    assert lines() == 0


def test_slow_clients_have_deadlines_here_too(model: cl.TrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    settled, ready = iter(range(9)), threading.Event()

    class Server:
        def __init__(self, config: dict[str, Any]) -> None:
            seen.update(config)

        def run(self, sockets: list[socket.socket]) -> None:
            sockets[0].close()

    monkeypatch.setattr(Service, "load", lambda service: time.sleep(0.2))  # longer than the server runs
    monkeypatch.setattr("uvicorn.Config", lambda app, **words: words)
    monkeypatch.setattr("uvicorn.Server", Server)
    monkeypatch.setattr("conceptlens.web.service.serve.settle", lambda: next(settled))
    serve_run(model, Options(port=0), ServiceOptions(), lambda words: ready.set() if "ready" in words else None)
    assert ready.is_set()  # what is being read was waited for: ending while torch works may abort the process
    assert next(settled) == 2  # what is imported, and what was read, is looked through for garbage no more
    assert seen["http"] is GuardedConnection
    assert (seen["limit_concurrency"], seen["timeout_keep_alive"]) == (1000, 30)


def test_images_are_counted_before_they_are_decoded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred megabytes hold thirty million images of one pixel, each of which becomes as large as the model's."""

    def never(*given: Any, **words: Any) -> Any:
        raise AssertionError("an image was decoded")

    monkeypatch.setattr("conceptlens.web.service.app.subjects", never)
    monkeypatch.setattr("conceptlens.web.service.app.read_upload", never)
    tiny = npy(np.zeros((100_000, 1, 1, 3), np.uint8))
    assert client.post("/v1/prediction", content=tiny, headers={"content-type": ARRAY}).status_code == 413
    files = [("images", (f"{n}.png", b"x")) for n in range(65)]
    assert client.post("/v1/prediction", files=files).status_code == 413
