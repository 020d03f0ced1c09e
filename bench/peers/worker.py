"""The peers' side of compare.py: a process that times its block whenever it is told to.

It stays alive between its turns, so that starting, compiling and warming up are paid once and the turns of
all programs can be short and close together.
"""

import json
import statistics
import sys
import time

WARM_UP_STEPS = 3
LEAST_SAMPLES = 3


def median_ms(step, seconds):
    samples = []
    end = time.perf_counter() + seconds
    while len(samples) < LEAST_SAMPLES or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        samples.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(samples)


def say(**message):
    print(json.dumps(message), flush=True)


def serve(make_step):
    """make_step(work) gives the version and a function that runs the block forward and backward once.

    Says {"version"} when warm, then {"ms"} for each line on standard input, which is a turn's seconds.
    """
    version, step = make_step(json.loads(sys.argv[1]))
    for _ in range(WARM_UP_STEPS):
        step()
    say(version=version)
    for line in sys.stdin:
        step()  # brings the caches back
        say(ms=median_ms(step, float(line)))
