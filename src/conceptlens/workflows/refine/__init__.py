"""Concepts changed and the model trained again, before and after side by side (IVQ-CBM paper, K.3 and Table 9)."""
