"""`conceptlens init`: from a folder that nobody prepared to a table, a concept file and a recipe."""
