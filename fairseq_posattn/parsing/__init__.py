"""From text to trees: parsers, and their work on corpora of any size."""
