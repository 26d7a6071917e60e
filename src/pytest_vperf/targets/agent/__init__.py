"""The agent of ours in machines that have no other: its program, its wire, and what is said on it."""
