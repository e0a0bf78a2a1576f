"""This package turns a raw line into pieces, and holds the settings of the parser in between."""
