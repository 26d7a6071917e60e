"""Where workloads run: a folder for each kind of target, all behind the Protocol in `base`."""
