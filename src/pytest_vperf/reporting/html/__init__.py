"""A run as one page of HTML, which opens without a network and draws what was measured."""
