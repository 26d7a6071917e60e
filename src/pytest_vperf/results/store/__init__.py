"""Where runs are kept, to be compared with later ones."""
