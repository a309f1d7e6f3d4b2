"""Tables and figures of the four papers: what can be made again here, and how."""
