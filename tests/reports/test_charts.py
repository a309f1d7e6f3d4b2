import re

import pytest

from conceptlens.pages.charts import HEIGHT, LEFT, RIGHT, WIDTH, Series, heat, line_chart, share_bar, signed_bar, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.3, 2.15, [0, 0.5, 1, 1.5, 2, 2.5]),
        (19, 83, [0, 20, 40, 60, 80, 100]),
        (0.001, 0.004, [0.001, 0.002, 0.003, 0.004]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("value", [0.0, 3.0, -2.0, 1e-9])
def test_ticks_of_a_single_value(value: float) -> None:
    marks = ticks(value, value)
    assert len(marks) > 1
    assert marks[0] <= value <= marks[-1]


@pytest.mark.parametrize(
    ("low", "high"), [(43.97575452007918, 43.97575452007919), (0.0, 1e-13), (-3.0, -2.9999999999999996)]
)
def test_ticks_of_nearly_equal_values_differ(low: float, high: float) -> None:
    marks = ticks(low, high)
    assert marks[0] <= low
    assert marks[-1] >= high
    assert len(set(marks)) == len(marks) > 1


def test_points_are_where_they_belong() -> None:
    chart = line_chart("t", [Series("a", [(0, 0.0), (1, 0.5), (2, 1.0)], 1)], y_range=(0, 1))
    path = re.search(r'd="M([^"]*)" class="line look1"></path><circle', chart)
    assert path
    points = [tuple(map(float, each.split())) for each in path[1].split("L")]
    assert [x for x, _ in points] == pytest.approx([LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT])
    assert points[0][1] > points[1][1] > points[2][1]
    assert points[0][1] - points[1][1] == pytest.approx(points[1][1] - points[2][1], abs=0.11)
    assert all(0 <= y <= HEIGHT for _, y in points)


def test_a_chart_is_told_in_words_and_names_are_escaped() -> None:
    chart = line_chart("<t>", [Series("<a>", [(1, 2.0), (4, 0.5)], 1)], mark=4)
    assert 'aria-label="&lt;t&gt;. &lt;a&gt;: 2 at epoch 1, 0.5 at epoch 4."' in chart
    assert "chosen: epoch 4" in chart
    assert "<t>" not in chart


def test_lines_without_points_are_left_out_and_long_ones_thinned() -> None:
    assert line_chart("t", [Series("a", [], 1)]) == ""
    assert line_chart("t", [Series("a", [(1, 5.0)], 1), Series("b", [], 2)]).count("<li>") == 1
    assert len(line_chart("t", [Series("a", [(x, x % 7) for x in range(50_000)], 1)])) < 12_000


def test_bars() -> None:
    assert 'width="25.00"' in share_bar(0.25)
    right, left = signed_bar(1.0, (-1.0, 1.0)), signed_bar(-0.5, (-1.0, 1.0))
    assert 'x="50.0"' in right
    assert 'width="48.0" height="8" class="bar"' in right
    assert 'x="26.0"' in left
    assert 'width="24.0" height="8" class="bar against"' in left
    assert 'width="0.0"' in signed_bar(0.0, (0.0, 0.0))


def test_heat_is_never_so_strong_that_text_drowns() -> None:
    assert heat(1.0, right=True) == "background:rgba(0,114,178,0.55)"
    assert heat(0.0, right=False) == "background:rgba(213,94,0,0.00)"
