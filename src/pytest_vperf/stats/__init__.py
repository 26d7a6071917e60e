"""Pure functions and rules that decide from samples: no files, no clock, no pytest."""
