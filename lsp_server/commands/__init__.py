"""The subcommands of `python -m lsp_server`, one module each."""
