"""Create probing tasks from a treebank or from a parsed corpus."""
