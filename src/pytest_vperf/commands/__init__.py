"""The commands of ``vperf``."""
