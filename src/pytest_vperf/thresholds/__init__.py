"""Threshold files: reading and checking them, and choosing the one for this hardware."""
