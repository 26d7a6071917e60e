"""Pods: a container image inside its own small virtual machine. Start with `pods`; the clock is in `boot`."""
