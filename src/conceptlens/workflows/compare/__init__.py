"""Methods against each other, fairly: the same images, the same trials, intervals, tests, and blocks by supervision."""
