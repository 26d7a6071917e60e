"""Claims that other projects publish about themselves; `vperf gallery` lists them."""
