// SPDX-License-Identifier: Apache-2.0
// Your own data set: arithmetic sequences, generated when read. The engine does everything else:
// the order of samples in each epoch on any number of ranks, prefetching by threads, overlapped
// copies, and the run, as in `trireme train`, which this program only observes.
//
//   mpirun -np 2 custom_data gpt.yaml
#include <fmt/format.h>

#include "data/sets/dataset.h"
#include "launch/engine/engine.h"
#include "runtime/base/error.h"
#include "runtime/comm/mpi.h"
#include "runtime/train/signal_requests.h"

namespace {

// Sample i is n, n + s, n + 2 s, ... modulo the vocabulary, with start and step derived from i. Its
// targets are the following tokens.
class Counting final : public trireme::Dataset {
 public:
  Counting(std::int64_t samples, std::int64_t context, std::int64_t vocabulary)
      : samples_(samples), vocabulary_(vocabulary), layout_(trireme::token_samples(context)) {}

  [[nodiscard]] trireme::DataKind kind() const override { return trireme::DataKind::tokens; }
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const trireme::SampleLayout& layout() const override { return layout_; }
  // Over all that samples depend on: a run continues from a checkpoint only if it is equal.
  [[nodiscard]] std::uint64_t fingerprint() const override {
    return static_cast<std::uint64_t>(samples_ << 20 ^ vocabulary_);
  }

  // Called by several threads concurrently.
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    const auto tokens =
        reinterpret_cast<std::int32_t*>(inputs.data());  // aligned for the layout's dtype
    const std::int64_t step = 1 + index % 5;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const std::int64_t now = index + static_cast<std::int64_t>(t) * step;
      tokens[t] = static_cast<std::int32_t>(now % vocabulary_);
      targets[t] = static_cast<std::int32_t>((now + step) % vocabulary_);
    }
  }

 private:
  std::int64_t samples_, vocabulary_;
  trireme::SampleLayout layout_;
};

// Called for each step while the next one computes, and for evaluations.
class Progress final : public trireme::RunObserver {
 public:
  explicit Progress(bool speaks) : speaks_(speaks) {}
  void read(const trireme::StepReport& step) override {
    if (speaks_) fmt::print("step {} loss {}\n", step.step + 1, step.loss);
  }
  void evaluated(std::int64_t done, const trireme::EvaluationResult& result) override {
    if (speaks_)
      fmt::print("after step {} {:.1f} % of the next tokens are right\n", done,
                 100 * result.correct);
  }

 private:
  bool speaks_;  // on one rank
};

void train(const std::string& file, const std::vector<std::string>& overrides) {
  const trireme::SignalRequests signals;  // SIGTERM ends the run with a checkpoint
  const trireme::RankProcess process;
  const trireme::Config config = trireme::read_config(process, file, overrides);
  const trireme::ModelTraits model = trireme::traits_of(config.model);
  const auto counting = std::make_shared<Counting>(4096, model.context, model.vocabulary);
  const auto unseen = std::make_shared<Counting>(64, model.context, model.vocabulary);
  trireme::Engine engine(process, config, trireme::Purpose::train,
                         {.training = counting, .validation = unseen});
  Progress progress(process.mpi.rank() == 0);
  engine.run(progress);  // from the newest checkpoint in run.directory, if there is one
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2)
      trireme::fail(trireme::ExitCode::config, "usage: {} CONFIG [KEY=VALUE]...", argv[0]);
    train(argv[1], {argv + 2, argv + argc});
  } catch (const trireme::Error& error) {  // other ranks may be waiting for this one
    trireme::print_error(error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
