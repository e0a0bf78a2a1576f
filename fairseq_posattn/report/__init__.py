"""Build the report, an HTML page that compares systems."""
