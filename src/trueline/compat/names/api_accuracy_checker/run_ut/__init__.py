"""``cd api_accuracy_checker/run_ut``: the commands of the checker."""
