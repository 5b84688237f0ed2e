// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: promises of CUDA and NCCL that cost time or need several ranks to model,
// each switched on by its name in TRIREME_EMULATED_CONTRACTS (a list with commas, or "all").
// Sources in README.md.
#pragma once

#include <cstdint>

namespace trireme::emulated {

enum class Contract : std::uint8_t {
  rendezvous,      // NCCL connects to a peer at its first message, and waits for the peer
  implicit_waits,  // allocating, freeing and loading a kernel wait for the whole device
  devices,         // the current device is per thread; streams and events belong to one
  captures,        // unsafe calls of a thread that captures are refused
  queues,          // streams share a few hardware queues
  environment,     // the driver and NCCL read their variables once
  spins            // only the main thread may spin on the device
};

[[nodiscard]] bool holds(Contract contract);

// Ends the program: the engine relies on something not guaranteed, or breaks a rule.
[[noreturn]] void breach(const char* call, const char* what);

// For a call that spins on a core until the device is done.
void spins(const char* call);

// Latched environment. The driver reads its variables at its first call, which `call` may be; with
// Contract::environment a later change of one is a breach.
void driver_called(const char* call);
void nccl_called(const char* call);
// CUDA_MODULE_LOADING=EAGER when the driver read it.
[[nodiscard]] bool loads_eagerly();
// CUDA_DEVICE_MAX_CONNECTIONS then, 8 by default and at most 32.
[[nodiscard]] unsigned hardware_queues();

}  // namespace trireme::emulated
