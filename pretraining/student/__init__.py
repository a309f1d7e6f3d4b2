"""Distils the teachers into `builtin/vit`."""
