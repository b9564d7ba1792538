"""A program -> a Run.

    session    ``capture(...)``: what users call
    notebook   numbers definitions, collects rows, hands them to the writer
    steps      when a training step begins and ends
    options    what was asked for, checked
    launch     capturing a program that is not changed at all
    watch      a light look at every step; ``suspicion``: which steps are worth more; ``lookback``: the calls before an
               overflow as a Run; ``points``: looks -> the log
"""

from trueline.capture.options import CaptureOptions
from trueline.capture.seeds import seed_all
from trueline.capture.session import Capture, capture

__all__ = ["Capture", "CaptureOptions", "capture", "seed_all"]
