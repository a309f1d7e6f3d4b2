"""A blinded study of a run's maps: its page for raters, and the analysis of their answers."""
