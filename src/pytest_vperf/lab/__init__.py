"""Hosts inside QEMU, with Xen or KVM, so that every kind of target runs on any machine."""
