#include "cuda_emulation/block.hpp"

#include <algorithm>
#include <numeric>

namespace cuda_emulation {
namespace {

Block* current_block = nullptr;

/// Blocks that the thread sanitizer tells apart: the next one's threads are the first one's again.
constexpr unsigned kBlocksApart = kThreadSanitizer ? 3 : 1;

/// Fibers are kept from launch to launch: making one takes longer than most kernels run.
std::vector<std::unique_ptr<Fiber>>& kept_fibers() {
  static auto& fibers = *new std::vector<std::unique_ptr<Fiber>>(kBlocksApart * kMostThreads);
  return fibers;
}

Fiber* kept_fiber(unsigned block, unsigned thread) {
  std::unique_ptr<Fiber>& fiber = kept_fibers()[block % kBlocksApart * kMostThreads + thread];
  if (fiber == nullptr) fiber = std::make_unique<Fiber>();
  return fiber.get();
}

}  // namespace

Block* Block::current() { return current_block; }

Block::Block(unsigned threads, std::size_t dynamic_bytes)
    : threads_(threads),
      warps_((threads + kWarpLanes - 1) / kWarpLanes),
      dynamic_(dynamic_bytes),
      meeting_(sizeof(Meeting)) {}

Block::~Block() {
  acquire(&ended_);
  // What stands in its midst cannot be begun anew.
  if (left_ > 0) kept_fibers() = std::vector<std::unique_ptr<Fiber>>(kept_fibers().size());
}

/// For a block that begins. The thread sanitizer is to forget the last one.
void Block::renew(FreshMemory& memory) const {
  if (kThreadSanitizer) memory = FreshMemory(memory.bytes());
  memory.poison();
}

void Block::run(const std::function<void()>& body, const std::function<void(unsigned)>& enter,
                Schedule schedule, std::mt19937& random) {
  current_block = this;
  body_ = &body;
  enter_ = &enter;
  failure_.clear();
  for (auto& [key, memory] : shared_) renew(memory);
  renew(dynamic_);
  renew(meeting_);
  for (unsigned i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    thread.state = State::ready;
    thread.barriers = thread.warp_syncs = 0;
    thread.fiber = kept_fiber(runs_, i);
    thread.fiber->start(thread_main);
  }
  ++runs_;
  left_ = static_cast<unsigned>(threads_.size());

  std::vector<unsigned> order(threads_.size());
  std::iota(order.begin(), order.end(), 0U);
  if (schedule == Schedule::reverse) std::reverse(order.begin(), order.end());
  while (left_ > 0) {
    bool moved = false;
    if (schedule == Schedule::greedy_warp) {
      for (unsigned warp = 0; warp < warps_; ++warp) moved = run_warp(warp) || moved;
    } else {
      if (schedule == Schedule::random) std::shuffle(order.begin(), order.end(), random);
      for (const unsigned thread : order) {
        if (threads_[thread].state != State::ready) continue;
        resume(thread);
        moved = true;
      }
      for (unsigned warp = 0; warp < warps_; ++warp) moved = release_warp(warp) || moved;
    }
    if (!moved && !release_block()) throw Error(describe_waiting());
  }
  current_block = nullptr;
}

void Block::thread_main() {
  Block& block = *current_block;
  (*block.body_)();
  cuda_emulation::release(&block.ended_);
  --block.left_;
  block.pause(State::done);
}

void Block::resume(unsigned thread) {
  running_ = thread;
  (*enter_)(thread);
  threads_[thread].fiber->resume();
  if (!failure_.empty()) throw Error(failure_);
}

void Block::pause(State state) {
  Thread& thread = threads_[running_];
  thread.state = state;
  thread.fiber->leave();
}

void Block::fail(const std::string& what) {
  failure_ = what;
  pause(State::done);
  std::abort();  // nobody goes on with a thread that failed
}

/// Until each of its threads waits for other warps, or is done.
bool Block::run_warp(unsigned warp) {
  bool moved = false;
  const unsigned begin = warp * kWarpLanes;
  const unsigned end = std::min(begin + kWarpLanes, static_cast<unsigned>(threads_.size()));
  do {
    for (unsigned thread = begin; thread < end; ++thread) {
      if (threads_[thread].state != State::ready) continue;
      resume(thread);
      moved = true;
    }
  } while (release_warp(warp));
  return moved;
}

void Block::wait_for_block() {
  char* const barrier = &meeting().barriers[threads_[running_].barriers++ % 2];
  release(barrier);
  pause(State::at_barrier);
  acquire(barrier);
}

const std::uint64_t* Block::wait_for_warp(WarpCall call, unsigned mask, std::uint64_t value) {
  const unsigned lane = running_ % kWarpLanes;
  Thread& thread = threads_[running_];
  if ((mask >> lane & 1U) == 0) fail("a warp's call: the mask must name the lane that calls");
  thread.call = call;
  thread.mask = mask;
  thread.given = value;
  // Only a sync orders what lanes do with memory.
  char* const sync = &meeting().warps[running_ / kWarpLanes][thread.warp_syncs % 2];
  if (call == WarpCall::sync) {
    ++thread.warp_syncs;
    release(sync);
  }
  pause(State::at_warp);
  if (call == WarpCall::sync) acquire(sync);
  return thread.received;
}

/// Lets lanes go on whose partners have all come.
bool Block::release_warp(unsigned warp) {
  const unsigned begin = warp * kWarpLanes;
  const unsigned count = std::min(kWarpLanes, static_cast<unsigned>(threads_.size()) - begin);
  bool released = false;
  for (unsigned lane = 0; lane < count; ++lane) {
    const Thread& first = threads_[begin + lane];
    if (first.state != State::at_warp) continue;
    bool complete = true;
    for (unsigned other = 0; other < kWarpLanes && complete; ++other) {
      if ((first.mask >> other & 1U) == 0) continue;
      complete = other < count && threads_[begin + other].state == State::at_warp;
      if (complete && (threads_[begin + other].call != first.call ||
                       threads_[begin + other].mask != first.mask)) {
        throw Error("a warp's call: its lanes must make the same call with the same mask");
      }
    }
    if (!complete) continue;
    const unsigned mask = first.mask;
    std::uint64_t given[kWarpLanes] = {};
    for (unsigned other = 0; other < count; ++other) given[other] = threads_[begin + other].given;
    for (unsigned other = lane; other < count; ++other) {
      if ((mask >> other & 1U) == 0) continue;
      std::copy(std::begin(given), std::end(given), threads_[begin + other].received);
      threads_[begin + other].state = State::ready;
    }
    released = true;
  }
  return released;
}

/// Lets all go on from a barrier that all have come to.
bool Block::release_block() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::at_barrier) return false;
  }
  for (Thread& thread : threads_) thread.state = State::ready;
  return true;
}

std::string Block::describe_waiting() const {
  unsigned barrier = 0, warp = 0, done = 0;
  for (const Thread& thread : threads_) {
    barrier += thread.state == State::at_barrier ? 1U : 0U;
    warp += thread.state == State::at_warp ? 1U : 0U;
    done += thread.state == State::done ? 1U : 0U;
  }
  return "threads wait for others that never come: " + std::to_string(barrier) + " at a barrier, " +
         std::to_string(warp) + " in a warp's call, " + std::to_string(done) + " have ended";
}

void* Block::shared(const void* key, std::size_t bytes) {
  FreshMemory& memory = shared_[key];
  if (memory.data() == nullptr) {
    memory = FreshMemory(bytes);
    memory.poison();
    shared_bytes_ += bytes;
  }
  return memory.data();
}

}  // namespace cuda_emulation
