// SPDX-License-Identifier: Apache-2.0
// A lock that a job inherits, and the command that submits it. It is free when the last process
// that holds it has ended, even if the campaign is gone. Uses open-file-description locks, which
// NFS 4 enforces across hosts.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/file.h"

namespace trireme::campaign {

// Empty if another process holds it. Raises ExitCode::config if the file system has no locks.
[[nodiscard]] std::optional<FileDescriptor> try_attempt_lock(const std::string& directory);
// False also if the file does not exist.
[[nodiscard]] bool attempt_is_locked(const std::string& directory);

}  // namespace trireme::campaign
