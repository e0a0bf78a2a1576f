"""New text: the trees of lines that are translated, and their way from text to pieces."""
