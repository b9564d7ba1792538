"""The half that is worked with: open it, run it, mend the tool for it."""
