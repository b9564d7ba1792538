"""PaddleAPITest: ``engineV2.py`` and ``tools`` as its document calls them."""
