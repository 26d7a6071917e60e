"""One pytest run: its options and settings, its session, the visits to its tests and their outcomes."""
