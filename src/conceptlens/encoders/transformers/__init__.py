"""Vision models of Hugging Face's transformers as encoders."""
