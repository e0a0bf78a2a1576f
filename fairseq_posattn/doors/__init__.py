"""Use models and mechanisms in other programs: CTranslate2 and Hugging Face transformers."""
