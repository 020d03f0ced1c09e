#pragma once

#include "backend/cpu/activation_kernels.hpp"
#include "backend/cpu/arithmetic_kernels.hpp"
#include "backend/cpu/cast_kernels.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/norm_kernels.hpp"
#include "backend/cpu/optimizer_kernels.hpp"
#include "backend/cpu/reduce_kernels.hpp"
#include "backend/cpu/softmax_kernels.hpp"
#include "backend/cpu/tile_kernels.hpp"

namespace tape8::cpu {

/// The kernels on one instruction set's vector.
template <class F>
inline constexpr Kernels kKernels{
    .cast = cast<F>,
    .activation = activation<F>,
    .activation_backward = activation_backward<F>,
    .norm = norm<F>,
    .norm_backward = norm_backward<F>,
    .softmax_cross_entropy = softmax_cross_entropy<F>,
    .softmax_cross_entropy_backward = softmax_cross_entropy_backward<F>,
    .binary = binary<F>,
    .scale = scale<F>,
    .dropout = dropout<F>,
    .sum = sum<F>,
    .sum_of_squares = sum_of_squares<F>,
    .squared_error = squared_error<F>,
    .mse_backward = mse_backward<F>,
    .reduce_columns = reduce_columns<F>,
    .broadcast = broadcast<F>,
    .broadcast_scalar = broadcast_scalar<F>,
    .adamw = adamw<F>,
    .sgd = sgd<F>,
    .amax = amax<F>,
    .load_tile = load_tile<F>,
    .activation_tile = activation_tile<F>,
    .activation_backward_tile = activation_backward_tile<F>,
    .norm_tile = norm_tile<F>,
    .sum_tile = sum_tile<F>,
    .store_tile = store_tile<F>,
};

}  // namespace tape8::cpu
