"""The network between targets: one switch per run, in a namespace of its own, and what is plugged into it."""
