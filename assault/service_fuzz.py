"""Requests that nobody should send to `conceptlens serve-model`: damaged images and arrays, forms, odd addresses."""

import io
import random
import struct
from collections.abc import Callable

import numpy as np

from assault.http_fuzz import Fuzzer
from assault.mutate import MUTATIONS

SHAPES = ((1, 8, 8, 3), (3, 32, 32, 3), (8, 8, 3), (0, 8, 8, 3), (1, 0, 0, 3), (1, 1, 5000, 3), (2, 8, 8), (4,), ())
TYPES = ("u1", "f4", "f8", "f2", "i8", "b1", "c8", "M8[s]", "U3", "S3", "V4", ">u2")
HEADERS = (
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999, 99999999, 9999, 3), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 65535, 65535, 3), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 8, 8, 3), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': " + b"-" * 5000 + b"1, }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': " + b"(" * 5000 + b"}",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (1L, 8L",
    b"{'descr': [('a', '|u1'), ('a', '<f4', (9, 9))], 'fortran_order': True, 'shape': (2,), }",
    b"{'descr': '|u1', 'shape': __import__('os').system('false')}",
)


class ServiceFuzzer(Fuzzer):
    """Sends drawn requests to one prediction service."""

    def _learn(self) -> None:
        self._document = self._json("/openapi.json")
        ways: list[Callable[[], tuple[str, bytes]]] = [self._image, self._image, self._array, self._array, self._form]
        self._ways = ways

    def _body(self, path: str) -> bytes:
        self._kind, body = self._chance.choice(self._ways)()
        if self._chance.random() < 0.05:
            self._kind = self._chance.choice(("", "text/plain", "application/json", "multipart/form-data", "image/png"))
        return body

    def _image(self) -> tuple[str, bytes]:
        return "image/png", self._damaged(self._chance.choice(self._pictures))

    def _array(self) -> tuple[str, bytes]:
        kind, draw = "application/x-npy", self._chance.random()
        if draw < 0.15:  # a header of its own
            header = self._chance.choice(HEADERS)
            return kind, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\x00" * 100
        file = io.BytesIO()
        made = np.zeros(self._chance.choice(SHAPES), self._chance.choice(TYPES if draw < 0.5 else ("u1", "f4")))
        if made.dtype.kind == "f" and made.size and draw > 0.8:
            made.flat[0] = self._chance.choice((np.nan, np.inf, -1e4))
        (np.savez if draw < 0.2 else np.save)(file, made)
        data = file.getvalue()
        return kind, self._chance.choice(MUTATIONS)(data, self._drawn()) if draw < 0.6 else data

    def _form(self) -> tuple[str, bytes]:
        """Some images as a form, which may end too early or say nothing of its files."""
        lines = []
        for number in range(self._chance.choice((0, 1, 2, 30))):
            name = self._chance.choice((f"{number}.png", "../../x", "\u202e.png", '"; x="', "", "a" * 3000))
            about = f'Content-Disposition: form-data; name="images"; filename="{name}"\r\n'.encode("utf-8", "replace")
            picture = self._damaged(self._chance.choice(self._pictures))
            lines.append(b"--edge\r\n" + about + b"Content-Type: image/png\r\n\r\n" + picture + b"\r\n")
        data = b"".join(lines) + b"--edge--\r\n"
        if self._chance.random() < 0.3:
            data = self._chance.choice(MUTATIONS)(data, self._drawn())
        return "multipart/form-data; boundary=edge", data

    def _drawn(self) -> random.Random:
        return random.Random(self._chance.random())
