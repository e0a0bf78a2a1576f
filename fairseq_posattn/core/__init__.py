"""The core is the tensor code of the package; it needs torch only and knows nothing of fairseq."""
