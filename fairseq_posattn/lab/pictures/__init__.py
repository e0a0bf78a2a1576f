"""Pictures of what a specification of attention does to one sentence."""

HEADS, SEED = 4, 2  # defaults of posattn show
