"""From a raw line to pieces: tokenising, segmenting, and the settings of the parser between."""
