"""Read files and validate their contents, write files atomically, and lock them."""
