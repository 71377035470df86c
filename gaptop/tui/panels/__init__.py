"""The lines of text around the picture: pure functions from what is known to pieces of text."""
