#pragma once

#include "backend/cuda/launch.hpp"

namespace tape8::cuda {

// CUDA's names for a function differ between f32 and f64.

inline __device__ float exponential(float x) { return expf(x); }
inline __device__ double exponential(double x) { return exp(x); }
inline __device__ float inverse_sqrt(float x) { return 1.0F / sqrtf(x); }
inline __device__ double inverse_sqrt(double x) { return 1.0 / sqrt(x); }

}  // namespace tape8::cuda
