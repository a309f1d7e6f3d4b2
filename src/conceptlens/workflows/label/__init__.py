"""`conceptlens label`: concept labels by people, the most useful images first."""
