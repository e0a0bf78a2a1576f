"""Do a large work in shards, on this machine or on a cluster, and go on with it after a kill."""
