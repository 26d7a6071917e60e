"""The machine under test: its fingerprint, its lock, what runs on it left behind, what can run on it."""
