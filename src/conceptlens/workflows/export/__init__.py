"""A trained bottleneck as one file that runs without conceptlens: pixels in; classes, concepts and maps out."""
