#pragma once

#include <cstddef>
#include <memory>

namespace cuda_emulation {

/// A function that can be left in its midst and gone on with later, on a stack of its own.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// To be begun anew; what ran before is given up where it stands.
  void start(void (*entry)());
  /// Runs until it calls leave(), on the thread that calls.
  void resume();
  /// Back to resume(), from inside.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cuda_emulation
