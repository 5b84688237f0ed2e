// SPDX-License-Identifier: Apache-2.0
// Private: shared by all ops on oneDNN. Source compatible with oneDNN 2.5 to 3.x: in 2.x a
// primitive_desc is made from an operation descriptor, in 3.x directly from the arguments.
//
// oneDNN uses only the calling thread, because a rank has one core. Primitives, memory objects and
// scratchpads are cached per thread and shape, so a steady call creates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/ops/common/scratch.h"

namespace trireme::ops::cpu {

[[nodiscard]] const dnnl::engine& dnnl_engine();
// The calling thread's stream; its first use limits that thread's OpenMP to one thread.
[[nodiscard]] const dnnl::stream& dnnl_stream();
// f32 or bf16 (and oneDNN's integer types); anything else is a broken contract.
[[nodiscard]] dnnl::memory::data_type dnnl_type(DType type);
// Attributes with a user-managed scratchpad; every cached primitive must use them.
[[nodiscard]] dnnl::primitive_attr dnnl_attributes();

// Raises "<call> failed: <status> (<oneDNN's text>)".
[[noreturn]] void dnnl_failed(std::string_view call, dnnl_status_t status, std::string_view text,
                              std::source_location where);
// For the C API.
inline void dnnl_check(dnnl_status_t status, std::string_view call,
                       std::source_location where = std::source_location::current()) {
  if (status != dnnl_success) [[unlikely]]
    dnnl_failed(call, status, "", where);
}
// For the C++ API, which throws.
template <typename Action>
decltype(auto) dnnl_checked(std::string_view call, Action&& action,
                            std::source_location where = std::source_location::current()) {
  try {
    return std::forward<Action>(action)();
  } catch (const dnnl::error& error) {
    dnnl_failed(call, error.status, error.what(), where);
  }
}

// The primitive_desc of a forward primitive (matmul, convolution_forward, ...); the arguments
// follow the engine in oneDNN 3 and form the operation descriptor in oneDNN 2.
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc dnnl_describe(const dnnl::primitive_attr& attributes,
                                                 const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(dnnl_engine(), args..., attributes);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attributes,
                                            dnnl_engine());
#endif
}

// The same for a backward primitive; `forward` is its forward's primitive_desc.
template <typename Primitive, typename Forward, typename... Args>
typename Primitive::primitive_desc dnnl_describe_backward(const dnnl::primitive_attr& attributes,
                                                          const Forward& forward,
                                                          const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(dnnl_engine(), args..., forward, attributes);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attributes,
                                            dnnl_engine(), forward);
#endif
}

// A primitive with its memory objects and scratchpad. Not shared between threads.
class CachedPrimitive {
 public:
  struct Argument {
    int index;  // DNNL_ARG_...
    dnnl::memory::desc desc;
  };
  static constexpr std::size_t max_arguments = 10;

  // `description` must have been made with dnnl_attributes().
  template <typename Primitive>
  static std::unique_ptr<CachedPrimitive> make(
      const typename Primitive::primitive_desc& description, std::span<const Argument> arguments) {
    return std::unique_ptr<CachedPrimitive>(
        new CachedPrimitive(Primitive(description), description.scratchpad_desc(), arguments));
  }

  template <typename Primitive>
  static std::unique_ptr<CachedPrimitive> make(
      const typename Primitive::primitive_desc& description,
      std::initializer_list<Argument> arguments) {
    return make<Primitive>(description, std::span(arguments.begin(), arguments.size()));
  }

  // Runs on the calling thread. One pointer per argument, in the order given to make().
  void execute(std::span<const void* const> pointers);
  void execute(std::initializer_list<const void*> pointers) {
    execute(std::span(pointers.begin(), pointers.size()));
  }

 private:
  CachedPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                  std::span<const Argument> arguments);

  dnnl::primitive primitive_;
  ScratchBlock scratchpad_;
  std::array<dnnl::memory, max_arguments + 1> memories_;
  std::array<dnnl_exec_arg_t, max_arguments + 1> arguments_{};
  std::size_t given_ = 0;  // arguments whose pointer is passed with each call
  std::size_t total_ = 0;
};

// The purpose of a primitive and all values that it was made from; unused entries are zero.
struct PrimitiveKey {
  enum class Kind : std::uint32_t { matmul, convolution, pooling, normalization, reorder, other };

  Kind kind = Kind::other;
  std::array<std::int64_t, 20> facts{};
  friend bool operator==(const PrimitiveKey&, const PrimitiveKey&) = default;
};

[[nodiscard]] std::size_t plan_hash(const PrimitiveKey& key);
[[nodiscard]] CachedPrimitive* find_primitive(const PrimitiveKey& key);
CachedPrimitive& store_primitive(const PrimitiveKey& key,
                                 std::unique_ptr<CachedPrimitive> primitive);

// The calling thread's primitive for `key`; the first use calls `make()` (a unique_ptr).
template <typename Make>
CachedPrimitive& cached_primitive(const PrimitiveKey& key, Make&& make) {
  if (CachedPrimitive* const found = find_primitive(key)) return *found;
  return store_primitive(
      key, dnnl_checked("making a oneDNN primitive", [&] { return std::forward<Make>(make)(); }));
}

}  // namespace trireme::ops::cpu
