#include "cuda_emulation/fiber.hpp"

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TAPE8_ASAN_FIBERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAPE8_ASAN_FIBERS
#endif
#endif
#if defined(TAPE8_ASAN_FIBERS)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_emulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10U;

#if defined(__x86_64__)

/// A stack that is not running, by its pointer; what a call must keep lies on top of it.
struct Context {
  void* stack_pointer = nullptr;
};

extern "C" void tape8_switch_stack(Context* from, const Context* to);
asm(R"(
.text
.type tape8_switch_stack, @function
tape8_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tape8_switch_stack, .-tape8_switch_stack
)");

void make_context(Context& context, std::byte* stack, void (*entry)()) {
  constexpr int kKeptRegisters = 6;
  auto* top = reinterpret_cast<void**>(stack + kStackBytes);
  *--top = nullptr;  // where a return from entry would go; keeps the stack aligned as a call does
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kKeptRegisters; ++i) *--top = nullptr;
  context.stack_pointer = top;
}

void switch_context(Context& from, const Context& to) { tape8_switch_stack(&from, &to); }

#else

using Context = ucontext_t;

void make_context(Context& context, std::byte* stack, void (*entry)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}

void switch_context(Context& from, const Context& to) { swapcontext(&from, &to); }

#endif

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Stack = std::unique_ptr<std::byte, Free>;

/// Stacks that no fiber has: their memory would take the system longer than most kernels run. A
/// launch is one thread's at a time.
std::vector<Stack>& spare_stacks() {
  static auto& stacks = *new std::vector<Stack>;
  return stacks;
}

Stack take_stack() {
  if (spare_stacks().empty()) {
    return Stack(static_cast<std::byte*>(std::aligned_alloc(4096, kStackBytes)));
  }
  Stack stack = std::move(spare_stacks().back());
  spare_stacks().pop_back();
#if defined(TAPE8_ASAN_FIBERS)  // marks what a stack has held
  __asan_unpoison_memory_region(stack.get(), kStackBytes);
#endif
  return stack;
}

}  // namespace

struct Fiber::State {
  Stack stack = take_stack();
  Context inside, outside;
  void (*entry)() = nullptr;
#if defined(TAPE8_ASAN_FIBERS)
  const void* outside_stack = nullptr;
  std::size_t outside_bytes = 0;
#endif

  ~State() { spare_stacks().push_back(std::move(stack)); }

  static State* entering;
  static void run() {
    State* self = entering;
#if defined(TAPE8_ASAN_FIBERS)
    __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack, &self->outside_bytes);
#endif
    self->entry();
    std::abort();  // an entry ends with leave()
  }
};

Fiber::State* Fiber::State::entering = nullptr;

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() = default;

void Fiber::start(void (*entry)()) {
  state_->entry = entry;
  make_context(state_->inside, state_->stack.get(), State::run);
}

void Fiber::resume() {
  State::entering = state_.get();
#if defined(TAPE8_ASAN_FIBERS)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, state_->stack.get(), kStackBytes);
#endif
  switch_context(state_->outside, state_->inside);
#if defined(TAPE8_ASAN_FIBERS)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(TAPE8_ASAN_FIBERS)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, state_->outside_stack, state_->outside_bytes);
#endif
  switch_context(state_->inside, state_->outside);
#if defined(TAPE8_ASAN_FIBERS)
  __sanitizer_finish_switch_fiber(fake_stack, &state_->outside_stack, &state_->outside_bytes);
#endif
}

}  // namespace cuda_emulation
