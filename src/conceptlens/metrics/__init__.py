"""One measure family a file. Fractions, not percent; what cannot be computed is None, so that every result is valid JSON.

`classification` and `concepts` describe a split; `rank` and `codebook` describe tokens; `intervals` gives bootstrap intervals.
"""
