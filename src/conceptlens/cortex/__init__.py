"""CORTEX: which tokens of a VQ model's codebook make a concept, and what happens when they change (Yang et al., 2025).

Nothing here imports torch by itself, so that the command line may ask for names.
"""
