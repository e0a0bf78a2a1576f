"""Read files and validate their contents, write them atomically, and lock them."""
