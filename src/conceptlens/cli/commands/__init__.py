"""The words of the command line, a file for each kind of work. Nothing imported at the top of them imports torch."""
