"""The record of a run, and what it is exported to."""
