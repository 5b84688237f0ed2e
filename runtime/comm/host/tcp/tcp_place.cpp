// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_place.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/comm/watchdog/start_watch.h"

namespace trireme {
namespace {

int number(const char* name, const char* text, int min) {
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < min)
    fail(ExitCode::config, "{}={}: is not a whole number of at least {}", name, text, min);
  return value;
}

std::uint64_t job_number() {
  for (const char* const name : {"TRIREME_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return checksum_of(value);
  }
  return 0;
}

}  // namespace

std::optional<TcpPlace> tcp_place() {
  const char* const size = std::getenv("WORLD_SIZE");
  if (size == nullptr) return {};
  TcpPlace place;
  place.size = number("WORLD_SIZE", size, 1);
  if (place.size == 1) return {};
  const char* const rank = std::getenv("RANK");
  const char* const address = std::getenv("MASTER_ADDR");
  if (rank == nullptr || address == nullptr) {
    fail(ExitCode::config,
         "WORLD_SIZE={} is set and {} is not; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
         "for each process, or start them with mpirun or srun --mpi=pmix",
         size, rank == nullptr ? "RANK" : "MASTER_ADDR");
  }
  place.rank = number("RANK", rank, 0);
  place.address = address;
  if (const char* const port = std::getenv("MASTER_PORT"))
    place.port = number("MASTER_PORT", port, 1);
  if (place.rank >= place.size || place.port > 65535) {
    fail(ExitCode::config,
         "RANK={} of WORLD_SIZE={}, MASTER_PORT={}: RANK must be below WORLD_SIZE, MASTER_PORT at "
         "most 65535",
         rank, size, place.port);
  }
  place.secret = TcpSecret::of_environment();
  place.job = job_number();
  place.patience_seconds = start_seconds();
  return place;
}

}  // namespace trireme
