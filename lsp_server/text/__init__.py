"""What a text says of itself: brackets, indentation, languages, prose. No models, no protocol."""
