"""Serves a Run as ``trueline view`` does, asks for its page and its data as a browser would, and keeps the answers.

python viewer.py RUN PAGE
"""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

run, page = sys.argv[1:]
words = [sys.executable, "-m", "trueline", "view", run, "--no-browser", "--json"]
server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
try:
    url = json.loads(server.stdout.readline())["url"]
    answers = [urllib.request.urlopen(url).read().decode("utf-8", "replace")]
    for name in sorted(
        set(re.findall(r"\b(call|calls|rows|data|details|module|search|tensor|elements)\b", answers[0]))
    ):
        for query in ("", "?id=0&rank=0", "?call=0&rank=0", "?row=0", "?q=os"):
            try:
                answers.append(urllib.request.urlopen(url + name + query).read().decode("utf-8", "replace"))
            except (urllib.error.URLError, OSError):
                continue
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(answers))
finally:
    server.terminate()
    sys.stderr.write(server.communicate(timeout=20)[1])
