"""The commands, a module each; what a command needs beyond its own module stands beside this folder."""
