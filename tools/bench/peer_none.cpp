#include "bench/peer.hpp"

namespace tape8::tools::bench {

std::string peer_name() { return {}; }

Call peer_gemm(const GemmShape&, DType, int) { return {}; }

}  // namespace tape8::tools::bench
