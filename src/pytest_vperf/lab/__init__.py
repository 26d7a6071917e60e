"""Whole hosts inside QEMU: a Xen host and a KVM host, so that every kind of target runs on any machine."""
