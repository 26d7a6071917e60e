"""The field's own tools, one file or folder each: command line, parser, and the interface for tests."""
