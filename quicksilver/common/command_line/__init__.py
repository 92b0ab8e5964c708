"""What the commands of all parts share: groups, sections of help, forms of output."""
