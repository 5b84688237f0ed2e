// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faulty_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>

namespace {

using trireme::test::Fault;

struct Armed {
  std::mutex mutex;
  std::string directory;  // "": off
  Fault fault = Fault::io_error;
  int nth = -1;  // -1: only count
  int counted = 0;
  std::string failed;
  std::set<int> files;  // open ones under the directory
};

Armed& armed() {
  static auto* const instance = new Armed;  // outlives every destructor that closes a file
  return *instance;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// For calls that take a path relative to a directory descriptor.
bool is_armed() {
  const std::lock_guard lock(armed().mutex);
  return !armed().directory.empty();
}

bool concerns(const char* path) {
  const std::lock_guard lock(armed().mutex);
  return !armed().directory.empty() && path != nullptr &&
         std::string(path).starts_with(armed().directory);
}

bool concerns(int file) {
  const std::lock_guard lock(armed().mutex);
  return !armed().directory.empty() && armed().files.contains(file);
}

// Whether this call is the one to fail.
bool is_due(const char* name, bool can_be_short) {
  const std::lock_guard lock(armed().mutex);
  Armed& it = armed();
  const bool due = it.nth == it.counted++;
  if (!due || (it.fault == Fault::short_write && !can_be_short)) return false;
  it.failed = name;
  return true;
}

// Makes the call, or fails.
template <typename Call>
auto faulty(const char* name, bool concerned, bool still_happens, Call&& call) {
  if (!concerned || !is_due(name, false)) return call();
  const Fault fault = armed().fault;
  if (fault == Fault::crash_before) ::_exit(trireme::test::crash_code);
  if (fault == Fault::crash_after || still_happens) static_cast<void>(call());
  if (fault == Fault::crash_after) ::_exit(trireme::test::crash_code);
  errno = fault == Fault::no_space ? ENOSPC : EIO;
  return static_cast<decltype(call())>(-1);
}

int remember(int file, bool concerned) {
  if (concerned && file >= 0) {
    const std::lock_guard lock(armed().mutex);
    armed().files.insert(file);
  }
  return file;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const bool concerned = concerns(path);
  // Reading is not part of a save.
  const bool counts = concerned && ((flags & O_ACCMODE) != O_RDONLY);
  return remember(faulty("open", counts, false, [&] { return real(path, flags, mode); }),
                  concerned);
}

int openat(int directory, const char* path, int flags, ...) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const bool concerned = is_armed() && (flags & O_ACCMODE) != O_RDONLY;
  return remember(
      faulty("openat", concerned, false, [&] { return real(directory, path, flags, mode); }),
      concerned);
}

ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  const bool concerned = concerns(file);
  if (concerned && armed().fault == Fault::short_write && bytes > 1) {
    if (is_due("pwrite", true)) bytes /= 2;
    return real(file, data, bytes, offset);
  }
  return faulty("pwrite", concerned, false, [&] { return real(file, data, bytes, offset); });
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  return faulty("fsync", concerns(file), false, [&] { return real(file); });
}

int ftruncate(int file, off_t size) {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  return faulty("ftruncate", concerns(file), false, [&] { return real(file, size); });
}

int close(int file) {
  static auto* const real = next<int(int)>("close");
  const bool concerned = concerns(file);
  if (concerned) {
    const std::lock_guard lock(armed().mutex);
    armed().files.erase(file);
  }
  return faulty("close", concerned, true, [&] { return real(file); });
}

int mkdir(const char* path, mode_t mode) {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return faulty("mkdir", concerns(path), false, [&] { return real(path, mode); });
}

int mkdirat(int directory, const char* path, mode_t mode) {
  static auto* const real = next<int(int, const char*, mode_t)>("mkdirat");
  return faulty("mkdirat", is_armed(), false, [&] { return real(directory, path, mode); });
}

int rename(const char* from, const char* to) {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return faulty("rename", concerns(from), false, [&] { return real(from, to); });
}

int unlink(const char* path) {
  static auto* const real = next<int(const char*)>("unlink");
  return faulty("unlink", concerns(path), false, [&] { return real(path); });
}

int unlinkat(int directory, const char* path, int flags) {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  return faulty("unlinkat", is_armed(), false, [&] { return real(directory, path, flags); });
}

int remove(const char* path) {
  static auto* const real = next<int(const char*)>("remove");
  return faulty("remove", concerns(path), false, [&] { return real(path); });
}

}  // extern "C"

namespace trireme::test {

void arm_fault(const std::string& directory, Fault fault, int nth) {
  const std::lock_guard lock(armed().mutex);
  Armed& it = armed();
  it.directory = directory;
  it.fault = fault;
  it.nth = nth;
  it.counted = 0;
  it.failed.clear();
}

void count_calls(const std::string& directory) {
  arm_fault(directory, Fault::io_error, -1);
}

void disarm_faults() {
  const std::lock_guard lock(armed().mutex);
  armed().directory.clear();
  armed().files.clear();
}

int calls_counted() {
  const std::lock_guard lock(armed().mutex);
  return armed().counted;
}

std::string failed_call() {
  const std::lock_guard lock(armed().mutex);
  return armed().failed;
}

}  // namespace trireme::test
