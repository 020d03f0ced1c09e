"""What mlp_torch.py and mlp_jax.py share: the options, turns of tape8 and a peer, and the table.

A peer script calls main(configurations, run). It starts itself again as a worker for each of its
configurations, because allocator and thread settings count only from a process's start.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

RECIPES = ("delayed", "bf16", "fp32")


def parse_arguments(peer):
    parser = argparse.ArgumentParser(
        description=f"LayerNorm -> dense -> activation -> dense, forward and backward on the CPU: "
        f"tape8 and {peer} in turns.")
    parser.add_argument("--tape8", default="build/release/bin/tape8", help="the program (default %(default)s)")
    parser.add_argument("--activations", default="gelu,swiglu")
    parser.add_argument("--shapes", default="2048x768x3072,128x512x2048", help="rows x hidden x intermediate")
    parser.add_argument("--threads", default="1,%d" % len(os.sched_getaffinity(0)))
    parser.add_argument("--dtypes", default="bf16,f32", help="the peer's")
    parser.add_argument("--configurations", default="", help="the peer's, by name (default all)")
    parser.add_argument("--rounds", type=int, default=3, help="turns (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn (default %(default)s)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def median_ms(step, seconds):
    """Median milliseconds of step(), after a warm-up."""
    for _ in range(3):
        step()
    samples = []
    end = time.perf_counter() + seconds
    while len(samples) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        samples.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(samples)


def run_tape8(program, case, seconds):
    """Milliseconds by recipe, and the floor: the matmuls at the peak of the matrix unit."""
    activation, shape, threads = case
    pattern = f"^layernorm_mlp/{activation}/({'|'.join(RECIPES)})/{shape}/{threads}t$"
    command = [program, "bench", "--json", "-", "--threads", str(threads), "--filter", pattern,
               "--seconds", str(seconds / 4)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    results = {result["name"].split("/")[2]: result for result in json.loads(output)}
    times = {recipe: results[recipe]["value"] for recipe in RECIPES}
    return times, results["delayed"]["limit_value"]


def run_peer(environment, work):
    """Milliseconds, or why there are none."""
    command = [sys.executable, sys.argv[0], "--worker", json.dumps(work)]
    # Hidden from the peer: the CPU is what is compared.
    result = subprocess.run(command, capture_output=True, text=True,
                            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment})
    if result.returncode != 0:
        return None, (result.stderr.strip().splitlines() or ["no message"])[-1]
    return float(result.stdout.splitlines()[-1]), ""


def compare(peer, arguments, configurations, case):
    activation, shape, threads = case
    tape8, floors, peers, failed = {}, [], {}, {}
    for _ in range(arguments.rounds):
        times, floor = run_tape8(arguments.tape8, case, arguments.seconds)
        floors.append(floor)
        for recipe, ms in times.items():
            tape8.setdefault(recipe, []).append(ms)
        for dtype in arguments.dtypes.split(","):
            for name, environment in configurations.items():
                if (dtype, name) in failed:
                    continue
                work = {"activation": activation, "shape": [int(n) for n in shape.split("x")],
                        "threads": threads, "dtype": dtype, "configuration": name,
                        "seconds": arguments.seconds}
                ms, why = run_peer({**environment, "OMP_NUM_THREADS": str(threads)}, work)
                if ms is None:
                    failed[dtype, name] = why
                else:
                    peers.setdefault((dtype, name), []).append(ms)

    print(f"\n{activation} {shape}, threads {threads}: medians of {arguments.rounds} turns, ms")
    tape8 = {recipe: statistics.median(values) for recipe, values in tape8.items()}
    for recipe, ms in tape8.items():
        print(f"  tape8 {recipe:<28} {ms:9.2f}")
    print(f"  {'the matmuls at the bf16 peak':<34} {statistics.median(floors):9.2f}")
    peers = {key: statistics.median(values) for key, values in peers.items()}
    for (dtype, name), ms in peers.items():
        print(f"  {peer + ' ' + dtype + ' ' + name:<34} {ms:9.2f}")
    for (dtype, name), why in failed.items():
        print(f"  {peer + ' ' + dtype + ' ' + name:<34}    failed: {why}")
    for dtype in arguments.dtypes.split(","):
        best = min((ms for (of, _), ms in peers.items() if of == dtype), default=None)
        if best is not None:
            print(f"  tape8 delayed is {best / tape8['delayed']:.2f}x as fast as {peer} {dtype} at its best")
    sys.stdout.flush()


def main(peer, configurations, run):
    """configurations: environment variables by name. run(work) gives milliseconds."""
    arguments = parse_arguments(peer)
    if arguments.worker:
        print(run(json.loads(arguments.worker)))
        return
    wanted = [name for name in arguments.configurations.split(",") if name] or list(configurations)
    chosen = {name: configurations[name] for name in wanted}
    for activation in arguments.activations.split(","):
        for shape in arguments.shapes.split(","):
            for threads in dict.fromkeys(int(n) for n in arguments.threads.split(",")):
                compare(peer, arguments, chosen, (activation, shape, threads))
