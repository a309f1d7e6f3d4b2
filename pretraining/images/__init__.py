"""The training images of the encoder that ships: which they are, what was left out, how they are packed and read."""
