// SPDX-License-Identifier: Apache-2.0
// Private to the device room: a captured stream.
#pragma once

#include "runtime/device/cuda/cuda_stream.h"

namespace trireme {

class CudaGraph final : public Graph {
 public:
  // Records what `work` enqueues on `stream` and on streams forked from it.
  CudaGraph(CudaStream& stream, const std::function<void()>& work);
  ~CudaGraph() override;
  void launch(Stream& stream) override;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace trireme
