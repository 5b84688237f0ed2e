// SPDX-License-Identifier: Apache-2.0
// Adds the gradients of separately stored tied parameters: a table read by the first and the last
// layer of the chain. Both copies then take the same step and stay equal. Runs after the
// data-parallel reduction, on this rank's slices, so the sum has one order: original plus copy.
#pragma once

#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/nn/param_store.h"

namespace trireme {

class TiedGradients {
 public:
  // `pipeline` joins the stages of both copies: the first has the original, the last the copy.
  // `params` and `pipeline` must outlive this.
  TiedGradients(Device& device, Communicator& pipeline, const ParamStore& params);

  // Enqueued on `comm`, which has the reduced gradients.
  void add(Stream& comm);

 private:
  struct Tie {
    int bucket = -1;
    int partner = -1;  // copy's bucket in the same store; -1: on another stage
    int peer = -1;     // that stage
  };

  Communicator& pipeline_;
  const ParamStore& params_;
  std::vector<Tie> ties_;
  Buffer received_;
};

}  // namespace trireme
