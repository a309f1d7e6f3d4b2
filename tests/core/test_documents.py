"""What a notebook shows of a result: its words, and its figure where it has one."""

from pathlib import Path

from conceptlens.core.documents import Document
from conceptlens.core.figures import new_figure
from conceptlens.cortex.results import Result


class Counted(Document):
    remedy = "Count again."

    images: int

    def text(self) -> str:
        return f"{self.images} < 4"


class Drawn(Counted):
    def plot(self):  # type: ignore[no-untyped-def]
        return new_figure(1, 1)


def test_words_and_figure() -> None:
    assert Counted(images=3)._repr_html_() == "<h4>Counted</h4><pre>3 &lt; 4</pre>"
    assert '<pre>3 &lt; 4</pre><img src="data:image/png;base64,' in Drawn(images=3)._repr_html_()


def test_pictures_that_a_command_wrote(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")
    result = Result("words", {}, (tmp_path / "a.json", tmp_path / "a.png"))
    assert result._repr_html_().count("<img") == 1
