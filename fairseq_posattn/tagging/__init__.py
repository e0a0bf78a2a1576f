"""Tagged sentences, vocabularies and accuracies of part-of-speech taggers."""
