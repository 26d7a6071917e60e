"""What people see of a run: header, progress line, tables, failure text."""
