"""How the weights that ship are made: teachers, images, text, training and evaluation. Not part of the package."""
