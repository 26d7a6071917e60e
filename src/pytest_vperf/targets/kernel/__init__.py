"""Linux kernels that machines are started with: their files, their modules, and their first root."""
