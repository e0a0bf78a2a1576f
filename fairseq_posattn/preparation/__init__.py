"""The steps from a treebank to binary data: extract, segment, project, binarize."""
