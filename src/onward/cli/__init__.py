"""The command line: one file a group of commands; each parses, asks the engine and prints."""
