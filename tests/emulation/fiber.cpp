// SPDX-License-Identifier: Apache-2.0
// Built without ThreadSanitizer's instrumentation, like block.cpp: the scheduler's data is not the
// kernel's. TRIREME_EMULATOR_TSAN is set if the rest of the program has it.
#include "tests/emulation/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if defined(TRIREME_EMULATOR_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the kernel emulator switches stacks on x86-64 only"
#endif

// Saves the callee-saved registers on this stack and its pointer in *save, then switches to `load`.
extern "C" void trireme_switch_stack(void** save, void* load);
asm(R"(
.text
.globl trireme_switch_stack
.type trireme_switch_stack,@function
trireme_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trireme_switch_stack,.-trireme_switch_stack
)");

namespace trireme::emulated {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t stack_bytes = std::size_t{256} * 1024;
constexpr int saved_registers = 6;

thread_local Fiber* starting = nullptr;

}  // namespace

void run_fiber(Fiber* fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber->caller_stack_, &fiber->caller_stack_bytes_);
#endif
  (*fiber->entry_)();
  fiber->finished_ = true;
  fiber->suspend();
  std::abort();  // a finished fiber was resumed
}

namespace {

void first_frame() {
  run_fiber(starting);
}

}  // namespace

Fiber::Fiber() {
  void* const memory = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
    std::perror("stack of an emulated CUDA thread");
    std::abort();
  }
  stack_ = static_cast<char*>(memory) + page;  // behind a guard page
#if defined(TRIREME_EMULATOR_TSAN)
  thread_sanitizer_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(TRIREME_EMULATOR_TSAN)
  __tsan_destroy_fiber(thread_sanitizer_fiber_);
#endif
  munmap(stack_ - page, stack_bytes + page);
}

void Fiber::start(const std::function<void()>& entry) {
  entry_ = &entry;
  finished_ = false;
  // The first switch "returns" into first_frame; the ABI wants the stack 16-byte aligned before a
  // call.
  auto** top = reinterpret_cast<void**>(stack_ + stack_bytes - 16);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&first_frame);
  for (int i = 0; i < saved_registers; ++i)
    *--top = nullptr;
  context_ = top;
}

void Fiber::resume() {
  starting = this;
#if defined(TRIREME_EMULATOR_TSAN)
  thread_sanitizer_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_sanitizer_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_, stack_bytes);
#endif
  trireme_switch_stack(&caller_, context_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if defined(TRIREME_EMULATOR_TSAN)
  __tsan_switch_to_fiber(thread_sanitizer_caller_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(finished_ ? nullptr : &fake_stack_, caller_stack_,
                                 caller_stack_bytes_);
#endif
  trireme_switch_stack(&context_, caller_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

#if defined(TRIREME_EMULATOR_TSAN)
void Fiber::release(void* point) {
  __tsan_release(point);
}
void Fiber::acquire(void* point) {
  __tsan_acquire(point);
}
#else
void Fiber::release(void* /*point*/) {}
void Fiber::acquire(void* /*point*/) {}
#endif

}  // namespace trireme::emulated
