// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/mpi_check.h"

#include <array>
#include <string>

#include "runtime/base/error.h"

namespace trireme::detail {
namespace {

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return fmt::format("MPI error {}", code);
  }
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

void check_mpi(int code, const char* call, std::source_location where) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  int error_class = code;
  if (MPI_Error_class(code, &error_class) != MPI_SUCCESS) error_class = code;
  // The class's text starts with its name: "MPI_ERR_COMM: invalid communicator".
  std::string reason = error_text(error_class);
  if (code != error_class) reason += fmt::format(" ({})", error_text(code));
  library_failed(call, reason, ExitCode::communication, where);
}

bool mpi_is_up() noexcept {
  int initialized = 0;
  int finalized = 0;
  return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 &&
         MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0;
}

}  // namespace trireme::detail
