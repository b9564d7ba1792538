"""``cd paddleapex/apex``: the commands of PaddleAPEX."""
