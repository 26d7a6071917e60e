"""Pods: container images in small virtual machines of their own. Start reading at `pods`; `pod` times the start."""

#: The program that runs them.
QEMU = "qemu-system-x86_64"
