"""Guests: full virtual machines that QEMU runs, with KVM or without, through libvirt."""
