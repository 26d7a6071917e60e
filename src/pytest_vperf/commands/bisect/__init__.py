"""``vperf bisect``: which commit made a claim's figure worse."""
