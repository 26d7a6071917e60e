"""Containers of a Docker engine, started by any OCI runtime."""
