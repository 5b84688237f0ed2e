// SPDX-License-Identifier: Apache-2.0
// A lock that a job, or the command that submits it, inherits: it is free when the last process
// that has it has ended, whatever became of the campaign. Open-file-description locks, which NFS 4
// keeps for all hosts.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/file.h"

namespace trireme::campaign {

// Nothing where somebody holds it. Raises ExitCode::config where there are no locks.
[[nodiscard]] std::optional<FileDescriptor> try_attempt_lock(const std::string& directory);
// False too where the file is not there.
[[nodiscard]] bool attempt_is_locked(const std::string& directory);

}  // namespace trireme::campaign
