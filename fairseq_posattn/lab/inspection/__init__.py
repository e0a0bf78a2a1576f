"""Show what a trained model or a mechanism computes: attention weights, heads, examples, pictures."""

HEADS, SEED = 4, 2  # defaults of posattn show
