"""What the watch costs, and whether it is there when something breaks."""
