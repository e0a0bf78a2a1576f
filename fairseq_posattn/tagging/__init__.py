"""Part-of-speech tagging: sentences with tags, dictionaries, the network (torch only)."""
