#include <dnnl.hpp>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>
#include <omp.h>

#include "bench/peer.hpp"

namespace tape8::tools::bench {
namespace {

using Memory = dnnl::memory;

Memory::desc matrix(std::int64_t rows, std::int64_t cols, Memory::data_type type, bool transposed) {
  return {{rows, cols}, type, transposed ? Memory::format_tag::ba : Memory::format_tag::ab};
}

/// A matmul that is set up once, over matrices of small numbers: the best case of its library.
struct Matmul {
  Matmul(const GemmShape& shape, Memory::data_type type) {
    const Memory::desc a_desc = matrix(shape.m, shape.k, type, shape.layout == Layout::tn);
    const Memory::desc b_desc = matrix(shape.k, shape.n, type, shape.layout == Layout::nt);
    const Memory::desc d_desc = matrix(shape.m, shape.n, type, false);
    primitive = dnnl::matmul({{a_desc, b_desc, d_desc}, engine});
    a = filled(a_desc);
    b = filled(b_desc);
    d = filled(d_desc);
    arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, d}};
  }

  /// Values of the type, converted from f32: 0 to 2.
  Memory filled(const Memory::desc& desc) {
    const Memory::dims dims = desc.dims();
    Memory values({dims, Memory::data_type::f32, Memory::format_tag::ab}, engine);
    auto* data = static_cast<float*>(values.get_data_handle());
    for (std::int64_t i = 0; i < dims[0] * dims[1]; ++i) data[i] = static_cast<float>(i % 61) / 30;
    Memory result(desc, engine);
    dnnl::reorder(values, result).execute(stream, values, result);
    stream.wait();
    return result;
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul primitive;
  Memory a, b, d;
  std::unordered_map<int, Memory> arguments;
};

}  // namespace

std::string peer_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

Call peer_gemm(const GemmShape& shape, DType dtype, int threads) {
  if (dtype != DType::f32 && dtype != DType::bf16) return {};
  omp_set_num_threads(threads);  // what a primitive is made for
  const auto type = dtype == DType::f32 ? Memory::data_type::f32 : Memory::data_type::bf16;
  const auto matmul = std::make_shared<Matmul>(shape, type);
  return [matmul, threads] {
    omp_set_num_threads(threads);
    matmul->primitive.execute(matmul->stream, matmul->arguments);
    matmul->stream.wait();
  };
}

}  // namespace tape8::tools::bench
