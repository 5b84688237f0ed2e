// SPDX-License-Identifier: Apache-2.0
#include "launch/text/continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

// Destination: standard output while generating, on the job's first rank, or a text that is merged
// with the other ranks' share.
struct Output {
  bool shown = false;
  std::string* held = nullptr;

  void write(const std::string& text) const {
    if (held != nullptr) *held += text;
    if (!shown) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
};

// Continues prompts, as many at a time as the model has texts; the next replaces a finished one.
class Generation {
 public:
  Generation(TextGenerator& generator, const StopRules& stop, const Words& words,
             std::span<const Prompt> prompts, bool lines, const Output& output)
      : generator_(generator),
        words_(words),
        prompts_(prompts),
        lines_(lines),
        output_(output),
        places_(static_cast<std::size_t>(generator_.texts()), prompts.size()),
        continuations_(prompts.size(), Continuation(words, stop)) {}

  // False if a logit was not finite.
  bool run() {
    for (int text = 0; text < generator_.texts(); ++text)
      begin_next(text);
    if (!lines_ && words_.known()) output_.write(prompts_.front().text);
    while (printed_ < prompts_.size()) {
      const std::vector<std::int32_t> drawn = generator_.step();
      for (std::size_t text = 0; text < places_.size(); ++text) {
        if (places_[text] == prompts_.size()) continue;
        take(static_cast<int>(text), drawn[text]);
        if (!finite_) return false;
      }
    }
    if (!lines_) output_.write("\n");
    return true;
  }

 private:
  void begin_next(int text) {
    std::size_t& place = places_[static_cast<std::size_t>(text)];
    place = next_;
    generator_.restart(text, next_ == prompts_.size() ? 0 : prompts_[next_].sample);
    if (next_ == prompts_.size()) return;
    generator_.feed(prompts_[next_++].ids, text);
  }

  void take(int text, std::int32_t token) {
    Continuation& continuation = continuations_[places_[static_cast<std::size_t>(text)]];
    const std::string shown = continuation.take(token);
    finite_ = continuation.reason() != "not_finite";
    if (!lines_) {
      if (words_.known()) {
        output_.write(shown);
      } else if (!continuation.over() || continuation.reason() == "length") {
        output_.write(fmt::format("{}{}", continuation.ids().size() == 1 ? "" : " ", token));
      }
    }
    if (!continuation.over()) return;
    begin_next(text);
    print_finished();
  }

  // In prompt order.
  void print_finished() {
    for (; printed_ < prompts_.size() && continuations_[printed_].over(); ++printed_) {
      if (lines_) output_.write(line(prompts_[printed_], continuations_[printed_]));
    }
  }

  [[nodiscard]] std::string line(const Prompt& prompt, const Continuation& continuation) const {
    nlohmann::ordered_json object;
    if (!prompt.text.empty()) object["prompt"] = prompt.text;
    if (words_.known()) object["text"] = continuation.text();
    object["ids"] = continuation.ids();
    if (prompt.sample > 0) object["sample"] = prompt.sample;
    object["reason"] = continuation.reason();
    // A text may end within a UTF-8 sequence.
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

  TextGenerator& generator_;
  const Words& words_;
  std::span<const Prompt> prompts_;
  bool lines_;
  Output output_;
  std::vector<std::size_t> places_;  // per text: its prompt, or none
  std::vector<Continuation> continuations_;
  std::size_t next_ = 0, printed_ = 0;
  bool finite_ = true;
};

// Model replicas share the prompts in rounds, so that finished ones are written early; within a
// round each replica takes every N-th prompt.
class SharedPrompts {
 public:
  SharedPrompts(Session& session, std::span<const Prompt> prompts, bool lines)
      : session_(session), prompts_(prompts), lines_(lines) {
    const auto copies = static_cast<std::size_t>(session_.mesh.shape().sample_ranks());
    const auto texts = static_cast<std::size_t>(session_.config.train.micro_batch);
    round_ = copies == 1 ? prompts.size() : copies * texts * batches_a_round;
  }

  // False if a logit was not finite on any replica. Collective.
  bool run(TextGenerator& generator, const StopRules& stop, const Words& words) {
    for (std::size_t first = 0; first < prompts_.size(); first += round_) {
      const std::vector<Prompt> own = own_of(first);
      std::string held;
      const bool alone = session_.mesh.shape().sample_ranks() == 1 || !lines_;
      const Output output{.shown = alone && session_.world->rank() == 0,
                          .held = alone ? nullptr : &held};
      const bool finite =
          own.empty() || Generation(generator, stop, words, own, lines_, output).run();
      const auto all = gather_texts(*session_.world, finite ? held : not_finite_mark);
      if (std::ranges::find(all, not_finite_mark) != all.end()) return false;
      if (session_.world->rank() == 0 && !alone) write_in_order(all);
    }
    return true;
  }

 private:
  static constexpr std::size_t batches_a_round = 8;
  static constexpr const char* not_finite_mark = "x";  // lines are JSON objects

  [[nodiscard]] std::vector<Prompt> own_of(std::size_t first) const {
    const MeshShape& mesh = session_.mesh.shape();
    const auto copy = static_cast<std::size_t>(sample_of(mesh, session_.mesh.here()));
    std::vector<Prompt> own;
    const std::size_t end = std::min(first + round_, prompts_.size());
    for (std::size_t i = first + copy; i < end; i += static_cast<std::size_t>(mesh.sample_ranks()))
      own.push_back(prompts_[i]);
    return own;
  }

  // `all`: per rank, its replica's lines.
  void write_in_order(const std::vector<std::string>& all) const {
    const MeshShape& mesh = session_.mesh.shape();
    std::vector<std::istringstream> copies;
    for (int copy = 0; copy < mesh.sample_ranks(); ++copy)
      copies.emplace_back(
          all[static_cast<std::size_t>(rank_of(mesh, {.data = copy * mesh.context}))]);
    std::string line;
    for (std::size_t next = 0; std::getline(copies[next], line); next = (next + 1) % copies.size())
      Output{.shown = true}.write(line + "\n");
  }

  Session& session_;
  std::span<const Prompt> prompts_;
  bool lines_;
  std::size_t round_ = 0;
};

}  // namespace

bool continue_prompts(Session& session, TextGenerator& generator, const Words& words,
                      const StopRules& stop, std::span<const Prompt> prompts, bool lines) {
  return SharedPrompts(session, prompts, lines).run(generator, stop, words);
}

}  // namespace trireme
