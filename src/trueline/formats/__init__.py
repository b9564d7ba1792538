"""The formats of other tools: what they write, read; what they read, written."""
