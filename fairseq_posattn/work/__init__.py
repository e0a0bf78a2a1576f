"""Process large files in shards, locally or on a cluster, with resumption after a kill."""
