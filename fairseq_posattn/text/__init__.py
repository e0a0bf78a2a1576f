"""Segment and parse raw text, and read and write tagged text."""
