"""What the subcommands of ``waterspout`` do: parse, call, print (`waterspout.command_line` puts them together)."""
