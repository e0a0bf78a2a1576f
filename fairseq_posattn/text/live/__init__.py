"""This package finds pieces and trees for new text while it is translated."""
