"""Lines on a console by which the host dates what a machine does."""

from __future__ import annotations

#: What the kernel's setup code prints first (arch/x86/boot/main.c) under "debug" and "earlyprintk".
KERNEL_LINE = b"early console in setup code"
#: What the first process of a machine with a root disk prints first (first_root/init.c).
INIT_LINE = b"vperf-init: up"
