"""Parse corpora of any size into dependency trees."""
