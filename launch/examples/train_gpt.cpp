// SPDX-License-Identifier: Apache-2.0
// Your own training loop: the engine does the steps, this program acts between them. Here the run
// stops once the validation loss has not improved for a while (early stopping), and keeps a
// checkpoint of each best. Within a step it changes the gradients.
//
//   mpirun -np 2 train_gpt gpt.yaml data.path=data/book/train
//   data.validation_path=data/book/validation train.steps=500
//
// The layout, the schedule, ZeRO, checkpoints and everything else of the config work as under
// `trireme train`.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "data/hdf5/child.h"
#include "launch/engine/engine.h"
#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/comm/mpi.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/init.h"

namespace {

constexpr std::int64_t steps_between_evaluations = 10;
constexpr int patience = 3;  // evaluations without improvement

// Noise that fades (Neelakantan et al., 2015). Its key is an element's place in the whole tensor,
// so it is bitwise identical across parallel layouts. Not with device.graphs: step, which would
// replay one step's noise.
class GradientNoise final : public trireme::GradientTransform {
 public:
  void apply(trireme::Stream& stream, const trireme::ParamStore& params,
             const trireme::GradientStep& step) override {
    const auto now = static_cast<std::uint64_t>(step.number);
    const float deviation = 1e-4F * std::pow(1.0F + static_cast<float>(now), -0.55F);
    const auto most = static_cast<std::size_t>(params.layout().owned_trained_elements());
    if (noise_.bytes() == 0)
      noise_ = {stream.device(), most * sizeof(float), trireme::MemoryKind::device};
    params.for_each_owned_gradient([&](const trireme::ParamSpec& spec,
                                       const trireme::Tensor& gradients, std::int64_t first) {
      const std::string& name = spec.identity();  // equal for tied copies
      const trireme::Tensor noise = noise_.view(trireme::DType::f32, gradients.shape);
      trireme::ops::fill_normal(stream, noise, now, trireme::stable_id(name.data(), name.size()),
                                first, 0, deviation);
      trireme::ops::add_in_place(stream, gradients, noise);
    });
  }

 private:
  trireme::Buffer noise_;
};

void train(const std::string& file, const std::vector<std::string>& overrides) {
  const trireme::RankProcess process;  // mpirun, srun, RANK and WORLD_SIZE over TCP, or alone
  const bool speaks = process.mpi.rank() == 0;
  const trireme::Config config = trireme::read_config(process, file, overrides);
  trireme::Engine engine(process, config, trireme::Purpose::train,
                         {.transforms = {std::make_shared<GradientNoise>()}});
  engine.begin();  // at the newest checkpoint in run.directory, if there is one

  double best = std::numeric_limits<double>::infinity();
  int without_progress = 0;
  while (engine.steps_done() < config.train.steps && without_progress < patience) {
    const trireme::StepReport step = engine.step();
    if (speaks)
      fmt::print("step {} loss {} norm {:.3f}\n", step.step + 1, step.loss, step.grad_norm);
    if (engine.steps_done() % steps_between_evaluations != 0) continue;
    // All ranks get the same result, so they decide alike.
    const double loss = engine.evaluate().loss;
    if (speaks) fmt::print("validation {}\n", loss);
    without_progress = loss < best ? 0 : without_progress + 1;
    if (loss < best) {
      best = loss;
      engine.save();
    }
  }
  engine.finish();
  engine.write_weights("weights.safetensors");
}

}  // namespace

int main(int argc, char** argv) {
  trireme::serve_hdf5_child(argc, argv);  // first
  try {
    if (argc < 2)
      trireme::fail(trireme::ExitCode::config, "usage: {} CONFIG [KEY=VALUE]...", argv[0]);
    train(argv[1], {argv + 2, argv + argc});
  } catch (const trireme::Error& error) {  // other ranks may be waiting for this one
    trireme::print_error(error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
