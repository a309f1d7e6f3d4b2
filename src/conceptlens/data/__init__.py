"""Data sources: images with labels. Nothing here imports torch but `loading` and `regions`."""
