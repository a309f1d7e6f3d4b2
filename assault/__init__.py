"""An assault on conceptlens: mutated inputs, kills at random moments, full and read-only disks. `python -m assault`."""
