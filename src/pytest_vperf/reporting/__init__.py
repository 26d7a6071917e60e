"""What a run shows: header, progress line, tables, failure text."""
