"""From a trained pipeline to numbers: predictions of a split, and what they are worth."""
