#!/usr/bin/env python3
"""Checks of the table's arithmetic and of the peers' ratios, on figures made up here."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE / "peers")]

import compare  # noqa: E402
import performance  # noqa: E402


def figure(name, value, unit="GFLOP/s", limit="bf16 dot", limit_value=200.0, **more):
    share = value / limit_value if unit == "GFLOP/s" else limit_value / value
    return {"name": name, "value": value, "unit": unit, "limit": limit, "limit_value": limit_value,
            "share": share, **more}


def lines_with(text, words):
    return [line for line in text.splitlines() if words in line]


class Table(unittest.TestCase):
    def test_the_worst_figure_decides(self):
        text = performance.table([
            figure("gemm/e4m3/2048x3072x768/NN/1t", 190, peer="oneDNN", peer_value=100.0),
            figure("gemm/e4m3/768x3072x2048/TN/1t", 170, peer="oneDNN", peer_value=200.0),
        ], [])
        [share] = lines_with(text, "FP8 GEMM, 1 thread")
        self.assertIn("0.85 to 0.95", share)
        self.assertIn("no, by 6%", share)
        self.assertIn("1.90x | yes", lines_with(text, "NN and NT: oneDNN")[0])
        self.assertIn("0.85x | no, by 26%", lines_with(text, "TN: oneDNN")[0])

    def test_what_is_at_most(self):
        node = performance.table([figure("tape_node/f32/1/1t", 0.25, "us")], [])
        self.assertIn("0.25 us | yes", lines_with(node, "a tape node")[0])
        pages = performance.table([figure("fresh_pages/bf16/64x64x256/2t", 3, "count")], [])
        self.assertIn("3 | no |", lines_with(pages, "fresh pages")[0])

    def test_two_threads_on_one_core_do_not_count(self):
        alone = figure("gemm/e4m3/2048x3072x768/NN/1t", 190)
        for limit, expected in ((395.0, "1.95x | yes"), (205.0, "not measured")):
            both = figure("gemm/e4m3/2048x3072x768/NN/2t", 370.5, limit_value=limit)
            [scaling] = lines_with(performance.table([alone, both], []), "2 threads in 1")
            self.assertIn(expected, scaling)

    def test_peers_by_threads_type_and_recipe(self):
        ratios = [{"recipe": "delayed", "peer": "torch", "dtype": "bf16", "times": 1.5},
                  {"recipe": "bf16", "peer": "torch", "dtype": "bf16", "times": 9.0},
                  {"recipe": "delayed", "peer": "jax", "dtype": "bf16", "times": 9.0},
                  {"recipe": "delayed", "peer": "torch", "dtype": "f32", "times": 2.0}]
        result = {"activation": "gelu", "shape": "2048x768x3072", "threads": 2, "ratios": ratios}
        bf16 = lines_with(performance.table([], [result]), "the same: PyTorch bf16")
        f32 = lines_with(performance.table([], [result]), "the same: PyTorch f32")
        self.assertIn("not measured", bf16[0])  # one thread
        self.assertIn("1.50x | yes", bf16[1])
        self.assertIn("2.00x | no, by 9%", f32[1])


class Ratios(unittest.TestCase):
    def test_a_peer_counts_at_its_best(self):
        found = compare.ratios({
            ("tape8", "delayed"): 10.0, ("tape8", "bf16"): 20.0, ("tape8", "fp32"): 40.0,
            ("torch", "bf16", "eager"): 30.0, ("torch", "bf16", "compiled"): 25.0, ("torch", "f32", "eager"): 60.0,
        })
        self.assertEqual({(one["recipe"], one["dtype"]): one["times"] for one in found},
                         {("delayed", "bf16"): 2.5, ("delayed", "f32"): 6.0, ("bf16", "bf16"): 1.25,
                          ("fp32", "f32"): 1.5})


if __name__ == "__main__":
    unittest.main()
