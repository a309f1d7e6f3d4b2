"""The pass against loops over patches; planted dormant, double and background codes are named, others are not."""

import numpy as np
import pytest
import torch

from conceptlens.evaluation.codebook.codes import (
    Profile,
    border_lift,
    class_dependence,
    explained_by_class,
    neighbors,
    profile,
)
from conceptlens.evaluation.codebook.nearest import NearestPatches
from conceptlens.evaluation.codebook.survey import Survey

GRID = (5, 5)
CODES = 6


def planted(n: int = 60, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Codes (6, 8), patches (n, 25, 8) and classes.

    Codes 0 and 1 tell the classes apart in the middle, 2 is the background at the border, 3 is the double of 0, 4 is
    dormant, 5 lies in every image somewhere in the middle.
    """
    generator = torch.Generator().manual_seed(seed)
    codes = 5 * torch.randn(CODES, 8, generator=generator)
    codes[3] = codes[0] + 0.1
    codes[4] = 100.0
    classes = np.arange(n) % 2
    patches = torch.empty(n, 25, 8)
    for image in range(n):
        for place in range(25):
            row, column = divmod(place, 5)
            if row in (0, 4) or column in (0, 4):
                code = 2
            elif place == 12:
                code = 5
            else:
                code = int(classes[image])
            patches[image, place] = codes[code] + 0.3 * torch.randn(8, generator=generator)
    return codes, patches, classes


def surveyed(
    codes: torch.Tensor, patches: torch.Tensor, assignment: torch.Tensor | None = None, batch: int = 16
) -> Survey:
    survey = Survey(codes)
    for start in range(0, len(patches), batch):
        part = slice(start, start + batch)
        survey.update(torch.arange(len(patches))[part], patches[part], None if assignment is None else assignment[part])
    return survey


def test_the_pass_against_a_loop() -> None:
    torch.manual_seed(0)
    codes, patches = torch.randn(7, 5), torch.randn(20, 9, 5)
    assignment = torch.randn(20, 9, 4).softmax(-1)
    survey = surveyed(codes, patches, assignment, batch=6)
    counts, places = np.zeros((20, 7), int), np.zeros((7, 9), int)
    second, mass, distance = np.zeros((7, 7), int), np.zeros((7, 4)), np.zeros(7)
    for image in range(20):
        for place in range(9):
            far = [float(((patches[image, place] - code) ** 2).sum()) for code in codes]
            order = np.argsort(far)
            counts[image, order[0]] += 1
            places[order[0], place] += 1
            second[order[0], order[1]] += 1
            distance[order[0]] += far[order[0]]
            mass[order[0]] += assignment[image, place].numpy()
    np.testing.assert_array_equal(survey.counts, counts)
    np.testing.assert_array_equal(survey.places, places)
    np.testing.assert_array_equal(survey.second, second)
    np.testing.assert_allclose(survey.mass, mass, rtol=1e-5)
    np.testing.assert_allclose(survey.distance, distance, rtol=1e-4)
    flat = patches.flatten(0, 1).double().numpy()
    total = ((flat - flat.mean(0)) ** 2).sum()
    assert survey.explained == pytest.approx(1 - distance.sum() / total, rel=1e-4)
    # Codes of one image with the assignment of another keep how much each code and slot have in all.
    assert survey.permuted is not None
    np.testing.assert_allclose(
        survey.permuted.sum(2), np.broadcast_to(counts.sum(0), (len(survey.permuted), 7)), rtol=1e-5
    )
    np.testing.assert_allclose(
        survey.permuted.sum(1), np.broadcast_to(assignment.sum((0, 1)), (len(survey.permuted), 4)), rtol=1e-4
    )
    assert (survey.permuted - survey.mass).abs().max() > 0.1


def test_batches_do_not_matter() -> None:
    codes, patches, _ = planted()
    one, many = surveyed(codes, patches, batch=60), surveyed(codes, patches, batch=7)
    np.testing.assert_array_equal(one.counts, many.counts)
    torch.testing.assert_close(one.nearest.distance, many.nearest.distance)
    torch.testing.assert_close(one.nearest.image, many.nearest.image)


def test_nearest_patches_against_a_loop() -> None:
    torch.manual_seed(1)
    codes, far = torch.randint(4, (30, 11)), torch.rand(30, 11)
    kept = NearestPatches(4, 5)
    for start in range(0, 30, 8):
        part = slice(start, start + 8)
        kept.update(torch.arange(30)[part], codes[part], far[part])
    for code in range(4):
        best = []
        for image in range(30):
            own = [(float(far[image, place]), image, place) for place in range(11) if codes[image, place] == code]
            if own:
                best.append(min(own))
        expected = [(image, place, pytest.approx(distance)) for distance, image, place in sorted(best)[:5]]
        assert kept.of(code) == expected


def test_a_code_with_few_images_has_few_patches() -> None:
    kept = NearestPatches(2, 3)
    kept.update(torch.tensor([7]), torch.tensor([[0, 0]]), torch.tensor([[2.0, 1.0]]))
    assert kept.of(0) == [(7, 1, 1.0)]
    assert kept.of(1) == []


def judged(codes: torch.Tensor, patches: torch.Tensor, classes: np.ndarray, **more: object) -> Profile:
    units = [str(place) for place in range(len(patches))]
    return profile(surveyed(codes, patches), GRID, classes, 2, units, resamples=50, **more)  # type: ignore[arg-type]


def test_planted_codes_are_named() -> None:
    codes, patches, classes = planted()
    made = judged(codes, patches, classes)
    kinds = [made.kinds(code, CODES, len(patches)) for code in range(CODES)]
    assert kinds[0] == ["duplicate"]
    assert kinds[1] == []
    assert kinds[2] == ["background"]
    assert "duplicate" in kinds[3]
    assert kinds[4] == ["dormant"]
    assert kinds[5] == []
    assert made.neighbor[0] == 3
    assert made.dependence[1] > 0.9
    assert made.dependence_p[1] < 0.05
    assert made.dependence_p[2] > 0.05
    assert made.images[5] == len(patches)
    assert made.by_class[1, 1] == pytest.approx(8 / 25)
    assert made.by_class[0, 1] == 0


def test_known_regions_decide_on_background() -> None:
    """Code 5 is always off the object, wherever it lies; 2 is at the border but on it."""
    codes, patches, classes = planted()
    numbers = surveyed(codes, patches).counts
    assert numbers[:, 2].sum() == 60 * 16
    maps = torch.cdist(patches, codes).argmin(-1).numpy()
    cover = (maps != 5).astype(float)
    made = judged(codes, patches, classes, maps=(maps, cover))
    assert made.kinds(5, CODES, 60) == ["background"]
    assert made.kinds(2, CODES, 60) == []
    assert made.on_object[2] == 1
    assert made.on_object[5] == 0


def test_a_border_code_that_tells_classes_apart_is_no_background() -> None:
    codes, patches, classes = planted()
    for image in np.flatnonzero(classes == 1):
        for place in range(25):
            if divmod(place, 5)[0] in (0, 4) and place % 2 == 0:
                patches[image, place] = codes[5]
    assert judged(codes, patches, classes).kinds(2, CODES, 60) == []


def test_class_dependence_by_hand() -> None:
    shares = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(explained_by_class(shares, np.array([0, 0, 1, 1])), [1, 0])
    found, p = class_dependence(shares, np.array([0, 0, 0, -1]), ["a", "b", "c", "d"])
    assert np.isnan(found).all()
    assert np.isnan(p).all()


def test_neighbors_by_hand() -> None:
    codes = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    which, ratio = neighbors(codes)
    assert which.tolist() == [1, 0, 0]
    np.testing.assert_allclose(ratio, [9 / 16, 9 / 16, 16 / 16])
    assert neighbors(codes[:1])[0].tolist() == [-1]


def test_border_where_all_is_border() -> None:
    codes = torch.randn(2, 3)
    survey = surveyed(codes, torch.randn(3, 4, 3))
    assert np.isnan(border_lift(survey, (2, 2))).all()


def test_the_sample_of_patches_is_even_and_bounded() -> None:
    """Patches carry the number of their batch: early and late ones are kept alike, and not more than a few thousand."""
    survey = Survey(torch.zeros(1, 2))
    for number in range(200):
        survey.update(torch.arange(20), torch.full((20, 50, 2), float(number)))
    kept = sum(part[0].untyped_storage().nbytes() for part in survey._sample)
    assert kept <= 8 * 6500
    rows, codes = survey.sample()
    assert len(rows) == len(codes) == 1500
    assert abs((rows[:, 0] < 100).mean() - 0.5) < 0.1


def test_surveys_of_chunks_add_up() -> None:
    codes, patches = torch.randn(5, 3), torch.randn(40, 6, 3)
    assignment = torch.rand(40, 6, 4).softmax(-1)
    whole = surveyed(codes, patches, assignment, batch=10)
    added: Survey | None = None
    for start in range(0, 40, 20):
        part = Survey(codes, seed=start)
        for at in (start, start + 10):
            some = slice(at, at + 10)
            part.update(torch.arange(at, at + 10), patches[some], assignment[some])
        read = Survey.from_tensors(codes, {name: value.clone() for name, value in part.to_tensors().items()})
        if added is None:
            added = read
        else:
            added.add(read)
    assert added is not None
    np.testing.assert_array_equal(added.counts, whole.counts)
    assert added.explained == pytest.approx(whole.explained)
    for name in ("places", "second", "images"):
        assert torch.equal(getattr(added, name), getattr(whole, name)), name
    torch.testing.assert_close(added.mass, whole.mass)
    torch.testing.assert_close(added.distance, whole.distance)
    for code in range(5):
        assert added.nearest.of(code) == whole.nearest.of(code)
    assert sorted(map(tuple, added.sample()[0].tolist())) == sorted(map(tuple, whole.sample()[0].tolist()))


def test_many_surveys_take_no_more_memory_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces carry their number: the sample stays even, and rows of counts are those of the first images."""
    monkeypatch.setattr("conceptlens.evaluation.codebook.survey.ROWS", 50)
    added = Survey(torch.zeros(2, 2))
    for number in range(40):
        part = Survey(torch.zeros(2, 2), seed=number)
        for _ in range(4):
            part.update(torch.arange(20), torch.full((20, 50, 2), float(number)))
        added.add(part)
    assert sum(len(rows) for rows, _ in added._sample) <= 6000
    assert len(added.counts) == 50
    assert int(added.images.max()) == 40 * 4 * 20
    rows, _ = added.sample()
    assert len(rows) == 1500
    assert abs((rows[:, 0] < 20).mean() - 0.5) < 0.1
