"""The report: one page of HTML that compares systems."""
