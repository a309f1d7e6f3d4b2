"""Good concepts in: drafting a concept file with language models, and judging one that a person or a model wrote."""
