"""Holds locks with redis-py's Lock on behalf of a Go test.

Reads commands from standard input, one a line, and answers each with one line:
acquire NAME TTL -> yes | no;  release NAME -> released | not-owned
"""
import sys

import redis
from redis.exceptions import LockError
from redis.lock import Lock

client = redis.Redis(port=int(sys.argv[1]))
locks = {}

for line in sys.stdin:
    command, name, *rest = line.split()
    if command == "acquire":
        lock = Lock(client, name, timeout=float(rest[0]), blocking=False)
        taken = lock.acquire()
        if taken:
            locks[name] = lock
        print("yes" if taken else "no", flush=True)
    else:
        try:
            locks[name].release()
            print("released", flush=True)
        except LockError:
            print("not-owned", flush=True)
