"""Where workloads run: one kind of target a file, all behind the Protocol in `base`."""
