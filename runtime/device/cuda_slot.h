// SPDX-License-Identifier: Apache-2.0
// How modules call functions of the CUDA back end, which a program may be linked without. Each such
// function has a typed slot that is null until an object of the back end fills it before main().
// Without weak symbols or archive order, so it works with every linker.
//   module:      if (cuda_slot<&make_nccl_world> != nullptr) ...
//   back end:  namespace trireme::cuda { ... make_nccl_world(...) { ... }
//              TRIREME_CUDA_PROVIDES(trireme, make_nccl_world);
#pragma once

#include <type_traits>

namespace trireme {

template <auto function>
inline constinit std::type_identity_t<decltype(function)> cuda_slot = nullptr;

}  // namespace trireme

// Use it in the back end's namespace; the function must have the type of scope::function.
#define TRIREME_CUDA_PROVIDES(scope, function)         \
  [[maybe_unused]] const bool function##_is_provided = \
      (::trireme::cuda_slot<& scope::function> = &function) != nullptr
