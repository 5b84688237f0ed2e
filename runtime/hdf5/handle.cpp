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

Handle access_properties(std::string_view subject) {
  Handle access(checked(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", subject), H5Pclose);
  checked(H5Pset_file_locking(access, false, true), "H5Pset_file_locking", subject);
  return access;
}

}  // namespace trireme::hdf5
