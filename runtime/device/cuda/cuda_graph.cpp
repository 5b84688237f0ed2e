// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_stream.h"

#include <exception>

namespace trireme {
namespace {

[[noreturn]] void refuse(std::string_view why) {
  fail(ExitCode::config, "device.graphs: the work cannot be recorded: {}", why);
}

}  // namespace

CudaGraph::CudaGraph(CudaStream& stream, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  // Thread-local, because loader threads and the watchdog call CUDA meanwhile.
  TRIREME_CUDA(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal));
  std::string reason;
  std::exception_ptr other;  // an error that is not the recording's
  try {
    work();
  } catch (const Error& error) {
    reason = error.what();
    if (error.code() != ExitCode::config && error.code() != ExitCode::internal)
      other = std::current_exception();
  }
  const cudaError_t ended = cudaStreamEndCapture(stream.handle(), &graph);
  static_cast<void>(cudaGetLastError());  // unchecked: clears the error
  if (ended != cudaSuccess && reason.empty())
    reason = fmt::format("{} ({})", cudaGetErrorName(ended), cudaGetErrorString(ended));
  cudaError_t made = cudaSuccess;
  if (reason.empty()) made = cudaGraphInstantiate(&executable_, graph, 0);
  if (graph != nullptr) TRIREME_CUDA(cudaGraphDestroy(graph));
  if (other) std::rethrow_exception(other);
  if (!reason.empty()) refuse(reason);
  TRIREME_CUDA(made);
}

CudaGraph::~CudaGraph() {
  detail::report_cuda(cudaGraphExecDestroy(executable_), "cudaGraphExecDestroy");
}

void CudaGraph::launch(Stream& stream) {
  TRIREME_CUDA(cudaGraphLaunch(executable_, CudaStream::of(stream).handle()));
}

}  // namespace trireme
