"""Where a model to decompose comes from; `gig.load_model` tells which of them a word means."""
