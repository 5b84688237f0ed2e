// SPDX-License-Identifier: Apache-2.0
// How rooms call what only the CUDA back end has, which a program may be linked without. Each such
// function has a slot of its own type, null until an object of the back end fills it before main():
// no weak symbols and no order of archives, so it works with every linker.
//   room:      if (cuda_slot<&make_nccl_world> != nullptr) ...
//   back end:  namespace trireme::cuda { ... make_nccl_world(...) { ... }
//              TRIREME_CUDA_PROVIDES(trireme, make_nccl_world);
#pragma once

#include <type_traits>

namespace trireme {

template <auto function>
inline constinit std::type_identity_t<decltype(function)> cuda_slot = nullptr;

}  // namespace trireme

// In the namespace of the back end's version of scope::function, whose type it must have.
#define TRIREME_CUDA_PROVIDES(scope, function)         \
  [[maybe_unused]] const bool function##_is_provided = \
      (::trireme::cuda_slot<& scope::function> = &function) != nullptr
