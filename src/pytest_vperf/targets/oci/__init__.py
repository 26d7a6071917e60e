"""OCI runtimes called directly, without an engine."""
