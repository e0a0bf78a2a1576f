"""The fairseq integration: models, tasks, criterions, optimizers, datasets, and patches of fairseq
itself."""
