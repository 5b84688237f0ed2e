// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/chunk_places.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#if __has_include(<H5FDdevelop.h>)  // HDF5 1.13 and later
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

namespace {

// Records the raw data read that a library call causes. One call at a time, under a Session's lock.
struct Watch {
  enum class Then : std::uint8_t { read, leave, refuse } then = Then::read;
  std::uint64_t offset = never_written;
  std::uint64_t bytes = 0;
};
Watch& watch() {
  static Watch only;
  return only;
}

struct WatchedFile {
  H5FD_t head{};  // must be first, for the library
  FileDescriptor file;
  haddr_t size = 0;
  haddr_t allocated = 0;
};

const WatchedFile& of(const H5FD_t* file) {
  return *reinterpret_cast<const WatchedFile*>(file);
}

H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  auto opened = std::make_unique<WatchedFile>();
  opened->file = FileDescriptor(::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!opened->file.is_open() || ::fstat(opened->file.get(), &status) != 0) return nullptr;
  if (!S_ISREG(status.st_mode)) return nullptr;  // a pipe or device would block
  opened->size = static_cast<haddr_t>(status.st_size);
  return &opened.release()->head;
}

herr_t close_file(H5FD_t* file) {
  delete reinterpret_cast<WatchedFile*>(file);
  return 0;
}

herr_t read_file(H5FD_t* file, H5FD_mem_t kind, hid_t, haddr_t at, std::size_t bytes, void* to) {
  Watch& now = watch();
  if (kind == H5FD_MEM_DRAW && now.then != Watch::Then::read) {
    if (now.offset == never_written) now.offset = at, now.bytes = bytes;
    return now.then == Watch::Then::leave ? 0 : -1;
  }
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(of(file).file.get(), next, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    next += got, at += static_cast<haddr_t>(got), bytes -= static_cast<std::size_t>(got);
  }
  std::fill_n(next, bytes, '\0');  // like the library's drivers past the end of a file
  return 0;
}

hid_t driver() {
  static const H5FD_class_t description = [] {
    H5FD_class_t it{};
#ifdef H5FD_CLASS_VERSION
    it.version = H5FD_CLASS_VERSION;
    it.value = static_cast<H5FD_class_value_t>(511);  // in the range for tests and private use
#endif
    it.name = "trireme-watched";
    it.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
    it.fc_degree = H5F_CLOSE_WEAK;
    it.open = open_file;
    it.close = close_file;
    it.query = [](const H5FD_t*, unsigned long* flags) -> herr_t { return *flags = 0, 0; };
    it.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return of(file).allocated; };
    it.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t to) -> herr_t {
      reinterpret_cast<WatchedFile*>(file)->allocated = to;
      return 0;
    };
    it.get_eof = [](const H5FD_t* file, H5FD_mem_t) { return of(file).size; };
    it.read = read_file;
    it.write = [](H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) -> herr_t {
      return -1;
    };
    return it;
  }();
  static const hid_t registered = checked(H5FDregister(&description), "H5FDregister", "a driver");
  return registered;
}

// Calls `call` while raw data reads are suppressed.
template <typename Call>
Watch watched(Watch::Then then, Call&& call) {
  watch() = {.then = then};
  call();
  return std::exchange(watch(), {});
}

}  // namespace

Handle watched_access_properties(const std::string& subject) {
  Handle access = hdf5::access_properties(subject);
  checked(H5Pset_driver(access, driver(), nullptr), "H5Pset_driver", subject);
  return access;
}

StoredChunk place_of_chunk(hid_t data, hid_t type, const hsize_t* at, const std::string& subject) {
  hsize_t bytes = 0;
  // HDF5 1.10 reports a missing chunk like an unreadable index; H5Dread does not.
  if (H5Dget_chunk_storage_size(data, at, &bytes) < 0 || bytes == 0) {
    if (place_of_element(data, type, at, subject) == never_written) return {};
    fail(ExitCode::data, "{}: the HDF5 library reads a chunk that it does not find", subject);
  }
  std::uint32_t skipped = 0;
  herr_t result = -1;
  const Watch seen = watched(Watch::Then::leave, [&] {
    char nothing = 0;  // never written to
#if H5_VERSION_GE(2, 0, 0)
    result = H5Dread_chunk1(data, H5P_DEFAULT, at, &skipped, &nothing);
#else
    result = H5Dread_chunk(data, H5P_DEFAULT, at, &skipped, &nothing);
#endif
  });
  checked(result, "H5Dread_chunk", subject);
  if (seen.offset == never_written || seen.bytes != bytes)
    fail(ExitCode::data, "{}: the HDF5 library reads {} bytes of a chunk that has {}", subject,
         seen.bytes, bytes);
  return {seen.offset, bytes, skipped};
}

std::uint64_t place_of_element(hid_t data, hid_t type, const hsize_t* at,
                               const std::string& subject) {
  const Handle space(checked(H5Dget_space(data), "H5Dget_space", subject), H5Sclose);
  const Handle memory(checked(H5Screate(H5S_SCALAR), "H5Screate", subject), H5Sclose);
  const int axes =
      checked(H5Sget_simple_extent_ndims(space), "H5Sget_simple_extent_ndims", subject);
  if (axes > 0) {
    std::array<hsize_t, H5S_MAX_RANK> one{};
    one.fill(1);
    checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, nullptr, one.data(), nullptr),
            "H5Sselect_hyperslab", subject);
  }
  herr_t result = -1;
  const Watch seen = watched(Watch::Then::refuse, [&] {
    std::array<char, 64> element{};  // numbers have at most 8 bytes
    result = H5Dread(data, type, memory, space, H5P_DEFAULT, element.data());
  });
  if (seen.offset == never_written) checked(result, "H5Dread", subject);
  return seen.offset;
}

}  // namespace trireme
