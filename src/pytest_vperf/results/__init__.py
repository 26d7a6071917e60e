"""The record of a run: its form, its file, and its journal."""
