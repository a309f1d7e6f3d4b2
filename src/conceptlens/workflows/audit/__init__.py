"""The audit of a run: its codes, its concepts, subgroups, calibration and images out of distribution (IVQ-CBM paper,
Appendices D, E and K.3)."""
