// SPDX-License-Identifier: Apache-2.0
// Private to this folder: the thread that looks at all NCCL communicators of the process. See Note
// [The end of a group on NCCL].
#pragma once

namespace trireme {

class NcclHandle;

class NcclMonitor {
 public:
  // Thread-safe. The thread lives while there are handles.
  static void add(NcclHandle& handle);
  static void remove(NcclHandle& handle);
};

}  // namespace trireme
