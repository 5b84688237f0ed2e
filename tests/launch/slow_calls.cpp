// SPDX-License-Identifier: Apache-2.0
// Preloaded into a run (LD_PRELOAD), it makes calls take longer:
//   TRIREME_TEST_FSYNC_MS  each fsync in the directory of an unfinished checkpoint
//   TRIREME_TEST_PREAD_MS  each pread of a data shard, as on a slow disk
//   TRIREME_TEST_ISEND_MS  each message of MPI, as on a slow link
#include <dlfcn.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

std::string path_of(int file) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

bool is_of_a_save(const std::string& path) {
  const std::size_t step = path.find("/checkpoints/step_");
  return step != std::string::npos && path.find(".tmp", step) != std::string::npos;
}

int milliseconds_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

void pause(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  static const int delay = milliseconds_of("TRIREME_TEST_FSYNC_MS");
  if (delay > 0 && is_of_a_save(path_of(file))) pause(delay);
  return real(file);
}

ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, std::size_t, off_t)>("pread");
  static const int delay = milliseconds_of("TRIREME_TEST_PREAD_MS");
  if (delay > 0 && path_of(file).ends_with(".h5")) pause(delay);
  return real(file, to, bytes, offset);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
              MPI_Request* request) {
  static auto* const real =
      next<int(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)>("MPI_Isend");
  static const int delay = milliseconds_of("TRIREME_TEST_ISEND_MS");
  if (delay > 0) pause(delay);
  return real(data, count, type, to, tag, group, request);
}

}  // extern "C"
