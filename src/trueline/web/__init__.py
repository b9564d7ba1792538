"""The local viewer: the pages of ``report`` served on loopback, with what is too large for a file loaded on demand."""
