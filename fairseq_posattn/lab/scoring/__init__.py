"""This room scores translations, and shows scores, logs and attention to the reader."""
