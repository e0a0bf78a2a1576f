"""Reading the logs of fairseq's programs."""
