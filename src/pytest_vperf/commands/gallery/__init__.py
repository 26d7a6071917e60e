"""``vperf gallery``: what projects publish about themselves, what this machine can judge of it, and what came out."""
