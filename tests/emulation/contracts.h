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
  devices,         // the current device is the thread's; streams and events belong to one
  captures,        // unsafe calls of a thread that captures are refused
  queues,          // streams share a few hardware queues
  environment,     // the driver and NCCL read their variables once
  spins            // only the main thread may wait for the device with a core of its own
};

[[nodiscard]] bool holds(Contract contract);

// Ends the program: a promise that the engine relies on is not given, or one that it gave is
// broken.
[[noreturn]] void breach(const char* call, const char* what);

// By a call that spins on a core until the device is there.
void spins(const char* call);

// Latched environment. The driver reads its variables at its first call, which `call` may be; from
// then on, with Contract::environment, a variable that has changed is a breach.
void driver_called(const char* call);
void nccl_called(const char* call);
// CUDA_MODULE_LOADING=EAGER when the driver read it.
[[nodiscard]] bool loads_eagerly();
// CUDA_DEVICE_MAX_CONNECTIONS then, 8 by default and at most 32.
[[nodiscard]] unsigned hardware_queues();

}  // namespace trireme::emulated
