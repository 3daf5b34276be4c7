"""When the engine is asked, and what is known without it. No models, no protocol."""
