"""Are the concepts used, editable, and no more than their names? Measured from what a run keeps; no image is opened."""
