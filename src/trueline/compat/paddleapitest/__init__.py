"""PaddleAPITest: engineV2 over ``trueline.check``, with its log folder and its two tools.

engine            the command, its flags, what each mode means here
log_folder        checkpoint.txt, api_config_*.txt, log_inorder.log, tol.csv
retest_remover    takes configs back so that they are tested again
tol_csv_stat      tol_full.csv, tol_stat.csv and tol_stat_api.csv of all tol*.csv
"""
