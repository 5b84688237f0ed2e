// SPDX-License-Identifier: Apache-2.0
// How modules call functions of the CUDA back end, which a program may be linked without. Each such
// function has a typed slot that is null until an object of the back end fills it before main().
// Without weak symbols or archive order, so it works with every linker.
//   module:      if (cuda_slot<&make_nccl_world> != nullptr) ...
//   back end:  namespace trireme::cuda { ... make_nccl_world(...) { ... }
//              TRIREME_CUDA_PROVIDES(trireme, make_nccl_world, nccl_library_version);
#pragma once

#include <type_traits>

namespace trireme {

template <auto function>
inline constinit std::type_identity_t<decltype(function)> cuda_slot = nullptr;

}  // namespace trireme

// Use it in the back end's namespace; the functions must have the types of scope::function.
#define TRIREME_CUDA_PROVIDES(scope, ...)              \
  TRIREME_EACH(TRIREME_CUDA_SLOT_, scope, __VA_ARGS__) \
  static_assert(true, "slots are filled by a statement")
#define TRIREME_CUDA_SLOT_(scope, function)            \
  [[maybe_unused]] const bool function##_is_provided = \
      (::trireme::cuda_slot<& scope::function> = &function) != nullptr;

// macro(scope, name) for each of up to 16 names.
#define TRIREME_EACH(macro, scope, ...) \
  TRIREME_SCAN_(TRIREME_EACH_FIRST_(macro, scope, __VA_ARGS__))
#define TRIREME_EACH_FIRST_(macro, scope, name, ...) \
  macro(scope, name) __VA_OPT__(TRIREME_EACH_NEXT_ TRIREME_NOTHING_(macro, scope, __VA_ARGS__))
#define TRIREME_EACH_NEXT_() TRIREME_EACH_FIRST_
#define TRIREME_NOTHING_ ()
#define TRIREME_SCAN_(...) \
  TRIREME_SCAN4_(TRIREME_SCAN4_(TRIREME_SCAN4_(TRIREME_SCAN4_(__VA_ARGS__))))
#define TRIREME_SCAN4_(...) \
  TRIREME_SCAN1_(TRIREME_SCAN1_(TRIREME_SCAN1_(TRIREME_SCAN1_(__VA_ARGS__))))
#define TRIREME_SCAN1_(...) __VA_ARGS__
