"""Human judgement out: a blinded study of a run's maps, its page for raters, and what their answers say."""
