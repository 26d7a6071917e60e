"""The root file systems that targets run, and what is taken from them."""
