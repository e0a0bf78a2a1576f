"""Segment raw lines into pieces, and provide their trees."""
