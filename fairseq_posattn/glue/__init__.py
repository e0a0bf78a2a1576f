"""fairseq: models, tasks, criteria, optimisers, data, and the patches of fairseq itself."""
