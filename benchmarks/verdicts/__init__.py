"""How often rules for "is B slower than A?" are wrong, and how many samples they take, on recorded noise."""
