"""The lanes of the picture: from the timeline to rows of cells."""
