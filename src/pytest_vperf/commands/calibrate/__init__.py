"""``vperf calibrate``: a profile of this machine, from several runs of the tests on it."""
