"""The Ascend api_accuracy_checker: every API of a training step tested alone.

import trueline.compat.api_accuracy_checker.dump       records one iteration as three JSON files
run_ut                                                 tests the calls in them
run_overflow_check                                     says whether calls that overflow had to
"""
