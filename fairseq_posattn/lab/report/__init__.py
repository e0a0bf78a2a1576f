"""This package makes the report, one page of HTML that compares systems."""
