#!/usr/bin/env python3
"""Makes the table of docs/performance.md from what `tape8 bench --json` and peers/compare.py --json wrote."""

import argparse
import json
import pathlib
import re
import sys

BEGIN, END = "<!-- table: bench/performance.py -->", "<!-- end of table -->"
LARGE_GEMMS = "(2048x3072x768|768x3072x2048|2048x768x3072)"
LARGE_BLOCK, SMALL_BLOCK = "2048x768x3072", "128x512x2048"
DRAM = "16384x3072"


class Figures:
    """Results of `tape8 bench` by name; of a name that is in several files the last."""

    def __init__(self, results):
        self.by_name = {one["name"]: one for one in results}

    def matching(self, pattern):
        return [one for name, one in self.by_name.items() if re.fullmatch(pattern, name) and self.is_quiet(one)]

    def is_quiet(self, one):
        """Two threads whose limit is not nearly twice that of one did not have both cores."""
        name = one["name"]
        if not name.endswith("/2t") or one["limit"] not in ("bf16 dot", "f32 fma"):
            return True
        alone = self.by_name.get(name.removesuffix("/2t") + "/1t")
        if alone is None:
            return True
        gain = one["limit_value"] / alone["limit_value"]  # of GFLOP/s; of ms it is the inverse
        return max(gain, 1 / gain) > 1.7

    def values(self, pattern, key="value"):
        return [one[key] for one in self.matching(pattern) if one.get(key) is not None]

    def peer_ratios(self, pattern):
        return [one["value"] / one["peer_value"] for one in self.matching(pattern) if "peer_value" in one]

    def scaling(self, pattern):
        """Two threads' value in that of one."""
        return [one["value"] / self.by_name[one["name"][:-1 - len("2t")] + "/1t"]["value"]
                for one in self.matching(pattern + "/2t")]


class Peers:
    def __init__(self, results):
        self.results = results

    def times(self, activation, shape, threads, peer, dtype, recipe="delayed"):
        return [one["times"] for result in self.results for one in result["ratios"]
                if (result["activation"], result["shape"], result["threads"]) == (activation, shape, threads)
                and (one["recipe"], one["peer"], one["dtype"]) == (recipe, peer, dtype)]


def row(work, goal, values, unit="", at_most=False):
    """`values` all have to reach the goal."""
    if not values:
        return f"| {work} | {'<=' if at_most else '>='} {goal:g}{unit} | not measured | |"
    low, high = min(values), max(values)
    digits = 2 if goal else 0
    spread = f"{low:.{digits}f}" if high - low < 0.005 else f"{low:.{digits}f} to {high:.{digits}f}"
    reached = high <= goal if at_most else low >= goal
    missed_by = high / goal - 1 if at_most and goal else 1 - low / goal if goal else 0
    verdict = "yes" if reached else f"no, by {missed_by:.0%}" if goal else "no"
    return f"| {work} | {'<=' if at_most else '>='} {goal:g}{unit} | {spread}{unit} | {verdict} |"


def counted(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def gemm_rows(bench):
    fp8 = f"gemm/e4m3/{LARGE_GEMMS}"
    yield row("FP8 GEMM, 1 thread: share of the bf16-dot peak", 0.90, bench.values(fp8 + "/../1t", "share"))
    yield row("the same: 2 threads in 1", 1.85, bench.scaling(fp8 + "/.."), "x")
    yield row("the same, NN and NT: oneDNN bf16", 1.05, bench.peer_ratios(fp8 + "/N./1t"), "x")
    yield row("the same, TN: oneDNN bf16", 1.15, bench.peer_ratios(fp8 + "/TN/1t"), "x")
    yield row("f32 GEMM, 1 thread: share of the FMA peak", 0.85,
              bench.values(f"gemm/f32/{LARGE_GEMMS}/../1t", "share"))
    for recipe, goal in (("mxfp8", 0.85), ("float8_block", 0.85), ("nvfp4", 0.80)):
        yield row(f"{recipe} GEMM, 1 thread: share of the bf16-dot peak", goal,
                  bench.values(f"gemm/{recipe}/{LARGE_GEMMS}/../1t", "share"))


def block_rows(bench, peers):
    for threads in (1, 2):
        count = counted(threads)
        yield row(f"GELU block {LARGE_BLOCK}, delayed, {count}: share of its matmuls at peak", 0.80,
                  bench.values(f"layernorm_mlp/gelu/delayed/{LARGE_BLOCK}/{threads}t", "share"))
        for dtype, goal in (("bf16", 1.25), ("f32", 2.2)):
            yield row(f"the same: PyTorch {dtype}", goal,
                      peers.times("gelu", LARGE_BLOCK, threads, "torch", dtype), "x")
        yield row(f"SwiGLU block {LARGE_BLOCK}, delayed, {count}: PyTorch bf16", 1.5,
                  peers.times("swiglu", LARGE_BLOCK, threads, "torch", "bf16"), "x")
    for dtype, goal in (("bf16", 1.2), ("f32", 3.5)):
        yield row(f"GELU block {SMALL_BLOCK}, delayed, 2 threads: PyTorch {dtype}", goal,
                  peers.times("gelu", SMALL_BLOCK, 2, "torch", dtype), "x")


def fused_rows(bench):
    for name, goal in (("cast", 0.90), ("layernorm_cast", 0.65), ("swiglu_cast", 0.75), ("gelu_cast", 0.50)):
        for threads in (1, 2):
            yield row(f"{name} bf16 -> e4m3, {DRAM}, {counted(threads)}: share of a copy's bandwidth", goal,
                      bench.values(f"{name}/bf16/{DRAM}/{threads}t", "share"))


def overhead_rows(bench):
    for recipe in ("fp32", "delayed"):
        yield row(f"LayerNorm + dense 32x64 -> 10 forward, {recipe}", 1.5,
                  bench.values(f"layernorm_dense_forward/{recipe}/32x10x64/1t"), " us", at_most=True)
    yield row("a tape node, forward and backward", 0.3, bench.values("tape_node/.*"), " us", at_most=True)
    yield row("`tape8 info`, start to end", 15, bench.values("program/info"), " ms", at_most=True)
    yield row("fresh pages in training steps 2 to 100", 0, bench.values("fresh_pages/.*"), at_most=True)


def memory_rows(bench):
    kept = f"saved_for_backward/gelu/(bf16|f32)/delayed/(remake_casts/)?{LARGE_BLOCK}"
    for one in bench.matching(kept):
        _, _, dtype, _, *rest = one["name"].split("/")
        remade = rest[0] == "remake_casts"
        goal = 0.51 if remade else {"bf16": 0.76, "f32": 0.64}[dtype]
        part = one["value"] / one["limit_value"]
        yield row(f"kept for backward, GELU block in {dtype}, delayed{', remake_casts' if remade else ''}: "
                  f"{one['value']:.1f} MiB, of {one['limit_value']:.1f}", goal, [part], at_most=True)


def table(bench_results, peer_results):
    bench, peers = Figures(bench_results), Peers(peer_results)
    rows = [*gemm_rows(bench), *block_rows(bench, peers), *fused_rows(bench), *overhead_rows(bench),
            *memory_rows(bench)]
    return "\n".join(["| work | goal | measured | reached |", "| --- | --- | --- | --- |", *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=pathlib.Path, help="of either kind; later ones count")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    bench, peers = [], {}
    for path in options.files:
        for one in json.loads(path.read_text()):
            if "ratios" in one:
                peers[one["activation"], one["shape"], one["threads"]] = one
            else:
                bench.append(one)
    text = table(bench, list(peers.values()))
    if options.write is None:
        print(text)
        return
    head, found, rest = options.write.read_text().partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not found or not ended:
        sys.exit(f"{options.write}: must have the lines {BEGIN} and {END}")
    options.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


if __name__ == "__main__":
    main()
