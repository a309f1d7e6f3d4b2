"""How the built-in generator is trained."""
