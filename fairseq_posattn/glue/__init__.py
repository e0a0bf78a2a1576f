"""This room connects the package with fairseq: it holds the models, tasks, criteria, optimisers and
datasets, and the patches of fairseq itself."""
