"""The field's own tools, one file each: command line, parser, and what a test calls."""
