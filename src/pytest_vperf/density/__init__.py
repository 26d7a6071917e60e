"""How many targets a host carries at once, and what each of them costs it."""
