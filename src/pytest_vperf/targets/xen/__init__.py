"""Machines on Xen, through libvirt: full ones (domUs), and pods."""
