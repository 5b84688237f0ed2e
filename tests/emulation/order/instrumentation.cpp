// SPDX-License-Identifier: Apache-2.0
// The functions that code compiled with -fsanitize=thread calls, without ThreadSanitizer's library:
// passes each load and store of kernels to accesses.h. All atomics are sequentially consistent.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/emulation/order/accesses.h"

using trireme::emulated::order::touch;

extern "C" {

// Called first by each object compiled so.
void __tsan_init() {
  trireme::emulated::order::kernels_observed = true;
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define TRIREME_ACCESS(bytes)                      \
  void __tsan_read##bytes(void* data) {            \
    touch(data, bytes, false);                     \
  }                                                \
  void __tsan_write##bytes(void* data) {           \
    touch(data, bytes, true);                      \
  }                                                \
  void __tsan_unaligned_read##bytes(void* data) {  \
    touch(data, bytes, false);                     \
  }                                                \
  void __tsan_unaligned_write##bytes(void* data) { \
    touch(data, bytes, true);                      \
  }
TRIREME_ACCESS(1)
TRIREME_ACCESS(2)
TRIREME_ACCESS(4)
TRIREME_ACCESS(8)
TRIREME_ACCESS(16)

void __tsan_read_range(void* data, std::size_t bytes) {
  touch(data, bytes, false);
}
void __tsan_write_range(void* data, std::size_t bytes) {
  touch(data, bytes, true);
}

// Ignores the one or two `order` arguments.
#define TRIREME_EXCHANGE(bits, name, operation)                                        \
  std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* data, \
                                                   std::uint##bits##_t value, int) {   \
    touch(data, sizeof *data, true);                                                   \
    return operation(data, value, __ATOMIC_SEQ_CST);                                   \
  }
#define TRIREME_COMPARE(bits, name)                                                         \
  bool __tsan_atomic##bits##_compare_exchange_##name(volatile std::uint##bits##_t* data,    \
                                                     std::uint##bits##_t* expected,         \
                                                     std::uint##bits##_t value, int, int) { \
    touch(data, sizeof *data, true);                                                        \
    return __atomic_compare_exchange_n(data, expected, value, false, __ATOMIC_SEQ_CST,      \
                                       __ATOMIC_SEQ_CST);                                   \
  }
#define TRIREME_ATOMICS(bits)                                                                     \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* data, int) { \
    touch(data, sizeof *data, false);                                                             \
    return __atomic_load_n(data, __ATOMIC_SEQ_CST);                                               \
  }                                                                                               \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* data, std::uint##bits##_t value, \
                                   int) {                                                         \
    touch(data, sizeof *data, true);                                                              \
    __atomic_store_n(data, value, __ATOMIC_SEQ_CST);                                              \
  }                                                                                               \
  TRIREME_EXCHANGE(bits, exchange, __atomic_exchange_n)                                           \
  TRIREME_EXCHANGE(bits, fetch_add, __atomic_fetch_add)                                           \
  TRIREME_EXCHANGE(bits, fetch_sub, __atomic_fetch_sub)                                           \
  TRIREME_EXCHANGE(bits, fetch_and, __atomic_fetch_and)                                           \
  TRIREME_EXCHANGE(bits, fetch_or, __atomic_fetch_or)                                             \
  TRIREME_EXCHANGE(bits, fetch_xor, __atomic_fetch_xor)                                           \
  TRIREME_COMPARE(bits, strong)                                                                   \
  TRIREME_COMPARE(bits, weak)
TRIREME_ATOMICS(8)
TRIREME_ATOMICS(16)
TRIREME_ATOMICS(32)
TRIREME_ATOMICS(64)

void __tsan_atomic_thread_fence(int) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // extern "C"
