"""The bridge between text and tokens: models and scripts behind one face. No protocol."""
