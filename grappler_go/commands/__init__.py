"""The commands of `grappler-go` that need no other package: thin mains over library functions."""
