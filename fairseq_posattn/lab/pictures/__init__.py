"""Pictures of what a specification of attention does to one sentence."""
