"""What other programs read: from the timeline to their file formats. Pure; writing the files is the command's."""
