"""``vperf selfcheck``: can verdicts about a metric be trusted on this machine?"""
