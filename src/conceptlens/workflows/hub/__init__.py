"""A trained model on a model hub: what is published of a run, its card, and how it comes back."""
