"""``pip install -e .``, as it is written in the document of PaddleAPEX: the folder above ``paddleapex`` on the path."""

from setuptools import find_namespace_packages, setup  # type: ignore[import-untyped]

setup(name="paddleapex", version="1.0.0", packages=find_namespace_packages(include=["paddleapex", "paddleapex.*"]))
