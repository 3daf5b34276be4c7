"""The product: a language server that completes code from models on this machine."""
