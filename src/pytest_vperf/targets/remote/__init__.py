"""Targets on another machine, reached by SSH: ``--on=ssh://user@host``."""
