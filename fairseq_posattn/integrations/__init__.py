"""Use models and mechanisms in other software: CTranslate2 and Hugging Face transformers."""
