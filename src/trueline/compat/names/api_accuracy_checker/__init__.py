"""``import api_accuracy_checker.dump``, as it is written in its document."""
