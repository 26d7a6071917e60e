"""``vperf history``: since when a claim's figure is what it is."""
