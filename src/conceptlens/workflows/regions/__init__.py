"""Boxes of an open-vocabulary detector and segments of a segmentation model, as the files that recipes name."""
