"""Integration with fairseq: models, tasks, criterions, optimizers, datasets and patches."""
