// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/asked.h"

#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda/kernel_names.h"
#include "runtime/device/work_log.h"

namespace trireme::cuda {

bool asked_to_launch(Stream& stream, const void* kernel, const Grid& grid) {
  if (WorkLog* const log = WorkLog::current())
    log->note_kernel(kernel_name(kernel), {grid.blocks, grid.threads, grid.shared_bytes});
  return CudaStream::of(stream).runs();
}

bool asked_to_call(Stream& stream, const char* library, int kernels) {
  if (WorkLog* const log = WorkLog::current()) log->note(WorkKind::library, library, 0, kernels);
  return CudaStream::of(stream).runs();
}

}  // namespace trireme::cuda
