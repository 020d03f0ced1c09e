#!/usr/bin/env python3
"""The MLP block forward and backward in tape8, PyTorch and JAX, in turns on the same CPU. See README.md."""

import argparse
import contextlib
import ctypes.util
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

RECIPES = ("delayed", "bf16", "fp32")
PEER_DTYPES = ("bf16", "f32")
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORES = sorted(os.sched_getaffinity(0))

# glibc gives freed memory back and takes fresh pages for each step unless it is told not to.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def torch_configurations():
    """Environment variables by name. An allocator that is installed is tried as well."""
    configurations = {"eager, as installed": {}, "eager": KEEP_MEMORY, "compiled": KEEP_MEMORY}
    for allocator in ("jemalloc", "tcmalloc"):
        library = ctypes.util.find_library(allocator)
        if library:
            configurations[f"compiled, {allocator}"] = {"LD_PRELOAD": library}
    return configurations


PEERS = {"torch": torch_configurations(), "jax": {"jit": {"JAX_PLATFORMS": "cpu", **KEEP_MEMORY}}}


class Tape8:
    """A recipe of `tape8 bench`; `floor` is its matmuls at the peak of the matrix unit, in ms."""

    def __init__(self, program, case, recipe):
        activation, shape, threads = case
        self.program = program
        self.configuration = recipe
        self.key = ("tape8", recipe)
        self.figure = f"layernorm_mlp/{activation}/{recipe}/{shape}/{threads}t"
        self.threads = threads
        self.samples, self.floors = [], []

    def turn(self, seconds):
        # Half of a figure's time goes to its limit, in turns with it.
        output = subprocess.run(
            [self.program, "bench", "--json", "-", "--threads", str(self.threads),
             "--filter", f"^{self.figure}$", "--seconds", str(seconds / 2)],
            check=True, capture_output=True, text=True).stdout
        [result] = json.loads(output)
        self.samples.append(result["value"])
        self.floors.append(result["limit_value"])

    def floor(self):
        return statistics.median(self.floors)


class Worker:
    """A peer in one configuration: a process that is stopped while it is not its turn."""

    def __init__(self, peer, configuration, case, dtype):
        activation, shape, threads = case
        self.key = (peer, dtype, configuration)
        self.samples, self.version, self.failure = [], "", ""
        work = {"activation": activation, "shape": [int(n) for n in shape.split("x")], "threads": threads,
                "dtype": dtype, "configuration": configuration}
        # One core a thread, as some peers make a thread for each core that they may use; no GPU.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads),
                       **PEERS[peer][configuration]}
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(str(core) for core in CORES[:threads]),
             sys.executable, str(HERE / f"mlp_{peer}.py"), json.dumps(work)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.version = self.answer().get("version", "")
        self.pause()

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        message = self.process.communicate()[1].strip().splitlines() or ["no message"]
        self.failure = message[-1]
        return {}

    def pause(self):
        if not self.failure:
            self.process.send_signal(signal.SIGSTOP)

    def turn(self, seconds):
        if self.failure:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        answer = self.answer()
        if answer:
            self.samples.append(answer["ms"])
        self.pause()

    def close(self):
        self.process.kill()
        self.process.wait()


def ratios(times):
    """How many times as fast tape8's recipes are as each peer's best configuration."""
    best = {}
    for key, ms in times.items():
        if key[0] != "tape8":
            best[key[:2]] = min(ms, best.get(key[:2], ms))
    return [{"recipe": recipe, "peer": peer, "dtype": dtype, "times": ms / times["tape8", recipe]}
            for recipe in RECIPES for (peer, dtype), ms in best.items()
            if (recipe == "fp32") == (dtype == "f32") or recipe == "delayed"]


def compare(options, case):
    with contextlib.ExitStack() as stack:
        runners = [Tape8(options.tape8, case, recipe) for recipe in RECIPES]
        for peer in options.peers:
            for configuration in PEERS[peer]:
                for dtype in options.dtypes:
                    worker = Worker(peer, configuration, case, dtype)
                    stack.callback(worker.close)
                    runners.append(worker)
        for _ in range(options.rounds):
            for runner in runners:
                runner.turn(options.seconds)

    times = {runner.key: statistics.median(runner.samples) for runner in runners if runner.samples}
    activation, shape, threads = case
    return {
        "activation": activation, "shape": shape, "threads": threads,
        "floors_ms": {runner.configuration: runner.floor() for runner in runners if isinstance(runner, Tape8)},
        "ms": [{"name": " ".join(key), "ms": ms} for key, ms in times.items()],
        "failures": {" ".join(one.key): one.failure for one in runners if isinstance(one, Worker) and one.failure},
        "versions": {one.key[0]: one.version for one in runners if isinstance(one, Worker) and one.version},
        "ratios": ratios(times),
    }


def table(result, rounds):
    lines = [f"\n{result['activation']} {result['shape']}, threads {result['threads']}: "
             f"ms, medians of {rounds} turns"]
    for one in result["ms"]:
        floor = result["floors_ms"].get(one["name"].removeprefix("tape8 "))
        share = f"   {floor / one['ms']:.2f} of the matmuls at peak" if floor else ""
        lines.append(f"  {one['name']:<30} {one['ms']:9.2f}{share}")
    lines += [f"  {name:<30}    failed: {why}" for name, why in result["failures"].items()]
    lines += [f"  tape8 {one['recipe']} is {one['times']:.2f}x as fast as {one['peer']} {one['dtype']} at its best"
              for one in result["ratios"]]
    return "\n".join(lines)


def names(known):
    """An argument that is some of `known`, with commas between them."""
    def parse(text):
        chosen = text.split(",")
        if not set(chosen) <= set(known):
            raise argparse.ArgumentTypeError(f"must be of {','.join(known)}: got {text}")
        return chosen
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tape8", default=str(ROOT / "build/release/bin/tape8"),
                        help="the program (default %(default)s)")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS), help="default torch,jax")
    parser.add_argument("--activations", type=names(("gelu", "swiglu")), default=["gelu", "swiglu"],
                        help="default gelu,swiglu")
    parser.add_argument("--shapes", default="2048x768x3072,128x512x2048",
                        help="rows x hidden x intermediate, of tape8 bench's (default %(default)s)")
    parser.add_argument("--threads", default=",".join(str(n) for n in dict.fromkeys((1, len(CORES)))),
                        help="default %(default)s")
    parser.add_argument("--dtypes", type=names(PEER_DTYPES), default=list(PEER_DTYPES),
                        help="of the peers (default bf16,f32)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file as well")
    return parser.parse_args()


def main():
    options = parse_arguments()
    results = []
    for activation in options.activations:
        for shape in options.shapes.split(","):
            for threads in options.threads.split(","):
                result = compare(options, (activation, shape, int(threads)))
                print(table(result, options.rounds), flush=True)
                results.append(result)
    versions = {peer: version for result in results for peer, version in result["versions"].items()}
    print("\n" + subprocess.run([options.tape8, "--version"], capture_output=True, text=True).stdout.strip(),
          *(f"{peer} {version}" for peer, version in versions.items()), sep=", ")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
