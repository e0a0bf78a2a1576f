"""From a raw line to pieces and trees."""
