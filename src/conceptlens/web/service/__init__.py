"""The prediction service: one model behind an address, without a page."""
