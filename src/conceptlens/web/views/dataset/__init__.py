"""All images of a split at once: columns, places, sprites, neighbors, likely label errors."""
