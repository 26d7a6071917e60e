"""``vperf claims``: every claim with its test, its threshold and its last verdict, in one table."""
