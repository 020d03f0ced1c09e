#!/usr/bin/env python3
"""The MLP block of `tape8 bench` in PyTorch on the CPU, in turns with tape8. See README.md."""

import compare

# glibc gives freed memory back and takes fresh pages for each step unless it is told not to.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

CONFIGURATIONS = {
    "eager, as installed": {},
    "eager": KEEP_MEMORY,
    "compiled": KEEP_MEMORY,
}


def run(work):
    import torch
    from torch.nn import functional

    torch.set_num_threads(work["threads"])
    torch.manual_seed(1)
    rows, hidden, intermediate = work["shape"]
    gated = work["activation"] == "swiglu"
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[work["dtype"]]

    def leaf(*sizes, scale=1.0):
        return (torch.randn(*sizes) * scale).to(dtype).requires_grad_()

    width = intermediate * (2 if gated else 1)
    leaves = [
        leaf(rows, hidden),
        leaf(hidden), leaf(hidden),
        leaf(width, hidden, scale=hidden**-0.5), leaf(width),
        leaf(hidden, intermediate, scale=intermediate**-0.5), leaf(hidden),
    ]
    dy = torch.randn(rows, hidden).to(dtype)

    def block(x, gamma, beta, kernel_1, bias_1, kernel_2, bias_2):
        h = functional.layer_norm(x, (hidden,), gamma, beta, eps=1e-6)
        h = functional.linear(h, kernel_1, bias_1)
        if gated:
            gate, up = h.chunk(2, dim=-1)
            h = functional.silu(gate) * up
        else:
            h = functional.gelu(h, approximate="tanh")
        return functional.linear(h, kernel_2, bias_2)

    if work["configuration"] == "compiled":
        block = torch.compile(block)

    def step():
        for one in leaves:
            one.grad = None
        block(*leaves).backward(dy)

    return compare.median_ms(step, work["seconds"])


if __name__ == "__main__":
    compare.main("torch", CONFIGURATIONS, run)
