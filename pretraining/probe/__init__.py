"""The built-in encoder measured: linear probes, prompts, patch tokens; every model by the same code."""
