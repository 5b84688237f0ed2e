// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/contracts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme::emulated {
namespace {

constexpr std::array<std::string_view, 7> contract_names{
    "rendezvous", "implicit_waits", "devices", "captures", "queues", "environment", "spins"};

// A bit for each contract.
unsigned read_contracts() {
  const char* const text = std::getenv("TRIREME_EMULATED_CONTRACTS");
  std::string_view rest = text == nullptr ? "" : text;
  unsigned found = 0;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const auto at = std::ranges::find(contract_names, name);
    if (name == "all") {
      found = ~0U;
    } else if (at != contract_names.end()) {
      found |= 1U << (at - contract_names.begin());
    } else {
      std::fprintf(stderr, "CUDA emulator: TRIREME_EMULATED_CONTRACTS: %s is no contract; see %s\n",
                   std::string(name).c_str(), "tests/emulation/README.md");
      std::abort();
    }
  }
  return found;
}

using Variables = std::map<std::string, std::string>;

Variables variables_with(std::string_view prefix) {
  Variables found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with(prefix) && equals != std::string_view::npos)
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

// A library's read of an environment variable, and its time.
struct Latch {
  const char* library;
  std::string_view prefix;
  std::string first_call{};
  Variables variables{};

  void called(const char* call) {
    if (first_call.empty()) {
      first_call = call;
      variables = variables_with(prefix);
    }
    if (!holds(Contract::environment)) return;
    const Variables now = variables_with(prefix);
    if (now == variables) return;
    for (const auto& [name, value] : now) {
      const auto before = variables.find(name);
      if (before != variables.end() && before->second == value) continue;
      breach(call, (name + "=" + value + " was set after " + library +
                    " had read its environment, at " + first_call)
                       .c_str());
    }
    breach(call, "a variable was removed after it had been read");
  }
};

std::mutex latch_mutex;
Latch driver{.library = "the driver", .prefix = "CUDA_"};
Latch nccl{.library = "NCCL", .prefix = "NCCL_"};

std::string driver_variable(const char* name) {
  const std::lock_guard lock(latch_mutex);
  const auto found = driver.variables.find(name);
  return found == driver.variables.end() ? std::string() : found->second;
}

}  // namespace

bool holds(Contract contract) {
  static const unsigned contracts = read_contracts();
  return (contracts >> static_cast<unsigned>(contract) & 1U) != 0;
}

void breach(const char* call, const char* what) {
  std::fprintf(stderr, "CUDA emulator: %s: %s\n", call, what);
  std::abort();
}

void spins(const char* call) {
  if (gettid() == getpid() || !holds(Contract::spins)) return;
  breach(call,
         "a thread beside the main one spins on a core of the host; "
         "cudaEventBlockingSync lets it sleep");
}

void driver_called(const char* call) {
  const std::lock_guard lock(latch_mutex);
  driver.called(call);
}

void nccl_called(const char* call) {
  const std::lock_guard lock(latch_mutex);
  nccl.called(call);
}

bool loads_eagerly() {
  static const bool eagerly = driver_variable("CUDA_MODULE_LOADING") == "EAGER";
  return eagerly;
}

unsigned hardware_queues() {
  static const unsigned queues = [] {
    const std::string text = driver_variable("CUDA_DEVICE_MAX_CONNECTIONS");
    return text.empty() ? 8U : static_cast<unsigned>(std::clamp(std::atoi(text.c_str()), 1, 32));
  }();
  return queues;
}

}  // namespace trireme::emulated
