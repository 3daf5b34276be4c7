"""Text of other files for the prompt. Knows text and grammars; no tokens, models or protocol."""
