"""Which rectangles of an image are cut out."""

import numpy as np

from conceptlens.data.dataset import Annotation
from conceptlens.training.batches.crops import part_boxes


def test_masks_and_boxes_of_parts() -> None:
    beak, speck = np.zeros((20, 30), bool), np.zeros((20, 30), bool)
    beak[3:9, 10:25] = True
    speck[0:2, 0:2] = True
    whole = np.ones((20, 30), bool)
    masks = {"object": whole, "beak": beak, "speck": speck, "nothing": np.zeros((20, 30), bool)}
    annotation = Annotation(masks=masks, boxes={"tail": (1.0, 2.0, 9.0, 19.0)}, size=(30, 20))
    found = {part: tuple(map(float, box)) for part, box in part_boxes(annotation)}
    assert found == {"tail": (1, 2, 9, 19), "beak": (10, 3, 25, 9)}  # too small a part, and the object beside parts
    assert [part for part, _ in part_boxes(Annotation(masks={"object": whole}, size=(30, 20)))] == ["object"]
