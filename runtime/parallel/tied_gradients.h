// SPDX-License-Identifier: Apache-2.0
// Adds up the gradients of tied parameters that are kept apart: a table read by the first and the
// last layer of the chain. Both copies then take the same step and stay equal. Runs after the
// reduction over data-parallel ranks, on the own slices, so that the sum has one order: original
// plus copy.
#pragma once

#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/nn/param_store.h"

namespace trireme {

class TiedGradients {
 public:
  // `pipeline` joins the stages that hold the other copies: the original is on the first, the copy
  // on the last. `params` and `pipeline` must outlive this.
  TiedGradients(Device& device, Communicator& pipeline, const ParamStore& params);

  // Enqueued on `comm`, which has the reduced gradients.
  void add(Stream& comm);

 private:
  struct Tie {
    int bucket = -1;
    int partner = -1;  // bucket of the copy in the same store; -1: on another stage
    int peer = -1;     // that stage
  };

  Communicator& pipeline_;
  const ParamStore& params_;
  std::vector<Tie> ties_;
  Buffer received_;
};

}  // namespace trireme
