"""Our agent, in pods and domUs: its program and its wire protocol."""
