"""libvirt, as far as every kind of full machine needs it: connections, events, consoles, storage."""
