"""The subcommands of `posattn`, one module each."""
