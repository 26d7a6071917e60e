"""The field's own tools, one file or folder each: command line, parser, and what a test calls."""
