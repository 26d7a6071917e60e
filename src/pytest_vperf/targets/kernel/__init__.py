"""Linux kernels for machines: their files, their modules, and an initramfs."""
