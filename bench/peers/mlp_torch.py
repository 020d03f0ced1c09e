"""The MLP block of `tape8 bench` in PyTorch on the CPU: a worker of compare.py."""

import torch
from torch.nn import functional

import worker


def make_step(work):
    torch.set_num_threads(work["threads"])
    torch.set_flush_denormal(True)
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

    if work["configuration"].startswith("compiled"):
        block = torch.compile(block)

    def step():
        for one in leaves:
            one.grad = None
        block(*leaves).backward(dy)

    return torch.__version__, step


if __name__ == "__main__":
    worker.serve(make_step)
