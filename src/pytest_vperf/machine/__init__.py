"""The machine under test: its fingerprint, locks, noise and tuning, leftovers of runs, and what can run on it."""
