"""The text tower: its phrases, its teacher's vectors, its training."""
