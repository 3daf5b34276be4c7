"""The catalogue of models and how they come to this machine."""
