#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda_emulation/emulation.hpp"
#include "cuda_emulation/fiber.hpp"
#include "cuda_emulation/thread_sanitizer.hpp"

namespace cuda_emulation {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kMostThreads = 1024;
inline constexpr unsigned kMostWarps = kMostThreads / kWarpLanes;

/// What the lanes of a warp do together.
enum class WarpCall { sync, shuffle, vote };

/// A block of threads that are run one at a time, and change where they wait for each other.
class Block {
 public:
  Block(unsigned threads, std::size_t dynamic_bytes);
  /// What its threads did comes before what the caller does from here on.
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs body() in each thread to its end; `enter(thread)` before a thread goes on. Throws Error.
  void run(const std::function<void()>& body, const std::function<void(unsigned)>& enter,
           Schedule schedule, std::mt19937& random);

  // Of the running thread:

  void wait_for_block();
  /// Gives a value to the lanes of the mask, all of which have to come; theirs by lane.
  const std::uint64_t* wait_for_warp(WarpCall call, unsigned mask, std::uint64_t value);
  /// Shared memory that `key` names, 0xff at first.
  void* shared(const void* key, std::size_t bytes);
  void* dynamic_shared() { return dynamic_.data(); }
  /// Gives the launch up.
  [[noreturn]] void fail(const std::string& what);

  std::size_t shared_bytes() const { return shared_bytes_; }
  static Block* current();

 private:
  enum class State { ready, at_barrier, at_warp, done };
  struct Thread {
    Fiber* fiber = nullptr;
    State state = State::ready;
    WarpCall call = WarpCall::sync;
    unsigned mask = 0;
    std::uint64_t given = 0;
    std::uint64_t received[kWarpLanes];  // by lane
    unsigned barriers = 0, warp_syncs = 0;
  };
  /// What threads of a block that runs meet at: at one and the other by turns, for a thread may be
  /// at the next before another has left the last.
  struct Meeting {
    char barriers[2];
    char warps[kMostWarps][2];
  };

  static void thread_main();
  void pause(State state);
  void resume(unsigned thread);
  bool run_warp(unsigned warp);
  bool release_warp(unsigned warp);
  bool release_block();
  Meeting& meeting() { return *reinterpret_cast<Meeting*>(meeting_.data()); }
  void renew(FreshMemory& memory) const;
  std::string describe_waiting() const;

  std::vector<Thread> threads_;
  unsigned warps_;
  std::map<const void*, FreshMemory> shared_;
  FreshMemory dynamic_, meeting_;
  char ended_ = 0;
  std::size_t shared_bytes_ = 0;
  const std::function<void()>* body_ = nullptr;
  const std::function<void(unsigned)>* enter_ = nullptr;
  unsigned running_ = 0;
  unsigned left_ = 0;  // threads that are not done
  unsigned runs_ = 0;
  std::string failure_;
};

}  // namespace cuda_emulation
