"""GIG: any trained image network taken apart into concepts, and how they cause each other, layer by layer."""
