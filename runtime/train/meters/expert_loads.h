// SPDX-License-Identifier: Apache-2.0
// Tokens per expert of every layer in some steps, read while the next one runs. A layer's counts
// are a statistic of its router (models/experts/router.h), whole on every rank of its stage; the
// stages add theirs up, each in its own layers' places.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/param_store.h"
#include "runtime/train/step/step_meter.h"

namespace trireme {

class ExpertLoads final : public StepMeter {
 public:
  // The last part of these statistics' names.
  static constexpr std::string_view statistic = ".router.load";
  // `chain`: parameters of all stages, equal on all ranks. Reads every `every`-th step, counted
  // from 1, and step `last`; 0: none. The references must outlive this.
  ExpertLoads(Device& device, const ProcessMesh& mesh, const ParamStore& params,
              std::span<const ParamSpec> chain, std::int64_t every, std::int64_t last);

  // Enqueues the copy to the host, on several stages their sum on `comm`.
  void updated(std::int64_t step, Stream& compute, Stream& comm) override;
  [[nodiscard]] bool recordable() const override { return false; }
  void read(StepReport& report) override;

 private:
  struct Layer {
    std::string name;
    std::int64_t first = 0, experts = 0, slots = 1;
    Tensor own{};  // empty on other stages
  };
  struct Slot {
    Buffer counts, host;  // of all layers, f32
    std::unique_ptr<Event> placed, copied;
  };
  [[nodiscard]] bool reads(std::int64_t step) const;
  [[nodiscard]] Slot& slot_of(std::int64_t step) {
    return slots_[static_cast<std::size_t>(step % 2)];
  }

  Device& device_;
  Communicator& pipeline_;
  std::int64_t every_, last_;
  std::vector<Layer> layers_;
  std::array<Slot, 2> slots_;
};

}  // namespace trireme
