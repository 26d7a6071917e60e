"""One run over many machines: an ordinary pytest on each, whose reports are logged here."""
