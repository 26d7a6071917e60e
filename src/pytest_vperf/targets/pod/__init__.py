"""Pods: container images in small virtual machines of their own. Start reading at `pods`; `pod` times the start."""
