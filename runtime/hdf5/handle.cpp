// SPDX-License-Identifier: Apache-2.0
#include "runtime/hdf5/handle.h"

namespace trireme::hdf5 {
namespace {

std::mutex& library_lock() {
  static std::mutex lock;
  return lock;
}

herr_t keep_innermost(unsigned index, const H5E_error2_t* entry, void* to) {
  if (index == 0 && entry->desc != nullptr) *static_cast<std::string*>(to) = entry->desc;
  return 0;
}

}  // namespace

Session::Session() : lock_(library_lock()) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string last_error() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text) < 0 || text.empty()) {
    return "no reason given";
  }
  return text;
}

std::string advice_for_newer_file(std::string_view reason) {
  if (reason.find("version") == std::string_view::npos &&
      reason.find("unknown object header message") == std::string_view::npos)
    return {};
  unsigned major = 0, minor = 0, release = 0;
  static_cast<void>(H5get_libversion(&major, &minor, &release));
  // LATEST is the library's own newest format. With a filter h5repack rewrites data sets; otherwise
  // it copies them in their old format.
  return fmt::format(
      "its format is newer than the HDF5 library of this program, {}.{}.{}, or it is damaged ({}); "
      "rewrite it in an older format with the HDF5 that wrote it: `h5repack -j 0 -k {} -f GZIP=4 "
      "IN OUT`, or in Python copy every data set into h5py.File(OUT, 'w', libver=('earliest', "
      "'v{}{:02}'))",
      major, minor, release, reason, static_cast<int>(H5F_LIBVER_LATEST), major, minor);
}

void call_failed(std::string_view call, std::string_view subject, ExitCode code,
                 std::source_location where) {
  const std::string reason = last_error(), advice = advice_for_newer_file(reason);
  if (!advice.empty()) fail(code, "{}: {}", subject, advice);
  library_failed(fmt::format("{}({})", call, subject), reason, code, where);
}

Handle access_properties(std::string_view subject) {
  Handle access(checked(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", subject), H5Pclose);
  checked(H5Pset_file_locking(access, false, true), "H5Pset_file_locking", subject);
  return access;
}

}  // namespace trireme::hdf5
