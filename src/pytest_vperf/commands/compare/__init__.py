"""``vperf compare``: runs that were kept, against other ones."""
