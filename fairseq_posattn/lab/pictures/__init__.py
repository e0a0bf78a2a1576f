"""Draw what the mechanisms of an attention specification compute for one sentence."""

HEADS, SEED = 4, 2  # defaults of posattn show
