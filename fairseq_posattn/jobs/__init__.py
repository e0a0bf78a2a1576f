"""Process large files in shards, locally or on a cluster; killed runs can be resumed."""
