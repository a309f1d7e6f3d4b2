"""What a notebook shows of a result: its words, and its figure where it has one."""

from pathlib import Path

from conceptlens.core.documents import Document, ResultMixin, TextResult
from conceptlens.core.figures import new_figure
from conceptlens.cortex.results import Result
from conceptlens.cortex.study import Study
from conceptlens.gig.run import Decomposed
from conceptlens.training.cost import Cost
from conceptlens.workflows.compare.compare import Compared
from conceptlens.workflows.export.export import Exported


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


def test_a_console_shows_the_words() -> None:
    assert repr(Counted(images=3)) == str(Counted(images=3)) == "3 < 4"
    assert repr(TextResult("words")) == "words"
    for result in (Cost, Compared, Decomposed, Exported, Study):
        assert result.__repr__ is ResultMixin.__repr__, f"{result.__name__}: a dataclass needs repr=False"


def test_pictures_that_a_command_wrote(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")
    result = Result("words", {}, (tmp_path / "a.json", tmp_path / "a.png"))
    assert result._repr_html_().count("<img") == 1
