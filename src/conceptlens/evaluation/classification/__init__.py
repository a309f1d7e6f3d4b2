"""One measure family a file. Fractions, not percent; what cannot be computed is None, so that all results are JSON.

`classification`, `concepts` and `ceiling` describe a split's decisions, `rank` and `codebook` its tokens; `intervals`
says how sure the headline numbers are.
"""
