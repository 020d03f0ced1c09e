"""The MLP block of `tape8 bench` in JAX on the CPU: a worker of compare.py."""

import jax
from jax import numpy as jnp

import worker


def make_step(work):
    rows, hidden, intermediate = work["shape"]
    gated = work["activation"] == "swiglu"
    dtype = {"bf16": jnp.bfloat16, "f32": jnp.float32}[work["dtype"]]
    keys = iter(jax.random.split(jax.random.key(1), 8))

    def values(*sizes, scale=1.0):
        return (jax.random.normal(next(keys), sizes) * scale).astype(dtype)

    width = intermediate * (2 if gated else 1)
    leaves = (
        values(rows, hidden),
        values(hidden), values(hidden),
        values(hidden, width, scale=hidden**-0.5), values(width),
        values(intermediate, hidden, scale=intermediate**-0.5), values(hidden),
    )
    dy = values(rows, hidden)

    def block(x, gamma, beta, kernel_1, bias_1, kernel_2, bias_2):
        wide = x.astype(jnp.float32)
        centered = wide - wide.mean(-1, keepdims=True)
        normal = centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-6)
        h = (normal * gamma + beta).astype(dtype) @ kernel_1 + bias_1
        if gated:
            gate, up = jnp.split(h, 2, axis=-1)
            h = jax.nn.silu(gate) * up
        else:
            h = jax.nn.gelu(h, approximate=True)
        return h @ kernel_2 + bias_2

    @jax.jit
    def forward_backward(leaves, dy):
        y, backward = jax.vjp(block, *leaves)
        return y, backward(dy)

    return jax.__version__, lambda: jax.block_until_ready(forward_backward(leaves, dy))


if __name__ == "__main__":
    worker.serve(make_step)
