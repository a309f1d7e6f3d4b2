"""The labeling page: one image at a time, answered by keys."""
