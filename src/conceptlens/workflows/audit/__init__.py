"""The codebook as an auditor: what each prototype has become, which are idle, double or background, and what of it all
a person should know (IVQ-CBM paper, Appendices D, E and K.3)."""
