"""How much text is taken from a model, which, and whether it is shown. No protocol."""
