#pragma once

namespace tape8 {

/// Which usages of a cast will be read.
struct Usages {
  bool rowwise = true, columnwise = true;
};

/// What a cast is made for. Per-tensor casts serve every usage alike.
struct CastRequest {
  Usages usages;
  /// The columnwise cast is Hadamard-transformed where its quantizer does so: false when it meets
  /// an operand that is not.
  bool hadamard = true;
  int flatten_axis = -1;  // from which on the axes are columns
};

}  // namespace tape8
