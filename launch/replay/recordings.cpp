// SPDX-License-Identifier: Apache-2.0
#include "launch/replay/recordings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Pieces = std::vector<RecordedPiece>;

constexpr int behind_forward = 1 << 20;  // above the number of layers in any chain

// Order within a micro-batch: its batch, layers forward, layers backward, each with its parameters.
TensorKey key_of(const nlohmann::json& line) {
  TensorKey key;
  key.step = line.at("step").get<std::int64_t>();
  key.what = static_cast<Seen>(line.at("what").get<int>());
  key.layer = line.at("layer").get<int>();
  const std::string name = line.at("name").get<std::string>();
  switch (key.what) {
    case Seen::weights_before:
      key.phase = 0;
      break;
    case Seen::reduced_gradient:
      key.phase = 2;
      break;
    case Seen::weights:
      key.phase = 3;
      break;
    default:
      key.phase = 1;
  }
  if (key.phase == 1) key.micro_batch = line.at("micro_batch").get<int>();
  if (key.phase != 1) key.place = key.layer;
  if (key.what == Seen::activation) key.place = 1 + key.layer;
  if (key.what == Seen::gradient) key.place = behind_forward - 2 * key.layer;
  if (key.what == Seen::parameter_gradient) key.place = behind_forward - 2 * key.layer + 1;
  if (key.what != Seen::activation && key.what != Seen::gradient) key.parameter = name;
  return key;
}

void read_rank(const std::string& path, int rank, Recording& recording) {
  LineReader lines(path, std::size_t{1} << 20, ExitCode::config);
  while (const auto text = lines.next()) {
    try {
      const auto line = parse_json(*text);
      const TensorKey key = key_of(line);
      if (key.what > Seen::weights)
        fail(ExitCode::config, "{}:{}: what: unknown number", path, lines.number());
      recording.kinds.insert(key.what);
      recording.tensors[key].push_back(
          {.rank = rank,
           .received = line.at("received").get<bool>(),
           .is_float = line.at("float").get<bool>(),
           .places = line.at("places").get<std::vector<std::int64_t>>(),
           .digest = line.at("digest").get<std::uint64_t>(),
           .at = line.at("at").get<std::int64_t>(),
           .name = line.at("name").get<std::string>()});
      if (recording.tensors[key].back().places.size() != 5)
        fail(ExitCode::config, "{}:{}: does not have five fields", path, lines.number());
    } catch (const nlohmann::json::exception& error) {
      fail(ExitCode::config, "{}:{}: is not a line of a recording: {}", path, lines.number(),
           error.what());
    }
  }
  if (lines.torn_end() || lines.too_long() > 0)
    fail(ExitCode::config, "{}: ends inside a line, or has a line that is too long", path);
}

std::string value_text(float value, bool is_float) {
  if (is_float) return fmt::format("{:a} ({:g})", value, value);
  return fmt::format("{}", std::bit_cast<std::uint32_t>(value));
}

// Names the first element of a piece that differs from the reference.
std::string odd_element(const Recording& recording, const RecordedPiece& piece,
                        const std::map<std::int64_t, float>& expected) {
  for (const auto& [place, value] : recording.values({piece})) {
    const auto other = expected.find(place);
    if (other == expected.end() ||
        std::bit_cast<std::uint32_t>(other->second) == std::bit_cast<std::uint32_t>(value))
      continue;
    return fmt::format("element {} is {} on rank {} and {} in the reference", place,
                       value_text(value, piece.is_float), piece.rank,
                       value_text(other->second, piece.is_float));
  }
  return {};
}

bool has_values(const Pieces& pieces) {
  return std::ranges::all_of(pieces, [](const RecordedPiece& piece) { return piece.at >= 0; });
}

// Ranks with the same region count once.
std::uint64_t whole_digest(const Pieces& pieces) {
  std::map<std::vector<std::int64_t>, std::uint64_t> regions;
  for (const RecordedPiece& piece : pieces)
    regions.emplace(piece.places, piece.digest);
  std::uint64_t sum = 0;
  for (const auto& [places, digest] : regions)
    sum += digest;
  return sum;
}

// Among ranks with the same region: those whose digest is in the minority.
std::vector<const RecordedPiece*> minority(const Pieces& pieces) {
  std::map<std::vector<std::int64_t>, std::map<std::uint64_t, std::size_t>> votes;
  std::map<std::vector<std::int64_t>, std::size_t> voters;
  for (const RecordedPiece& piece : pieces) {
    ++votes[piece.places][piece.digest];
    ++voters[piece.places];
  }
  std::vector<const RecordedPiece*> odd;
  for (const RecordedPiece& piece : pieces)
    if (2 * votes[piece.places][piece.digest] <= voters[piece.places] &&
        votes[piece.places].size() > 1)
      odd.push_back(&piece);
  return odd;
}

// Pieces that differ from the reference; by region if it has the same regions, else by the sum of
// all, or, if ranks disagree, the minority.
std::vector<const RecordedPiece*> odd_pieces(const Recording& recording, const Pieces& pieces,
                                             const Recording& reference, const Pieces& expected) {
  std::map<std::vector<std::int64_t>, std::uint64_t> regions;
  for (const RecordedPiece& piece : expected)
    regions.emplace(piece.places, piece.digest);
  std::vector<const RecordedPiece*> odd;
  const bool alike = std::ranges::all_of(
      pieces, [&](const RecordedPiece& piece) { return regions.contains(piece.places); });
  if (alike) {
    for (const RecordedPiece& piece : pieces)
      if (regions.at(piece.places) != piece.digest) odd.push_back(&piece);
    return odd;
  }
  const auto few = minority(pieces);
  if (few.empty() && whole_digest(pieces) == whole_digest(expected)) return {};
  if (has_values(pieces) && has_values(expected)) {
    const auto values = reference.values(expected);
    for (const RecordedPiece& piece : pieces)
      if (!odd_element(recording, piece, values).empty()) odd.push_back(&piece);
    return odd;
  }
  if (!few.empty()) return few;
  for (const RecordedPiece& piece : pieces)
    odd.push_back(&piece);
  return odd;
}

std::string tensor_text(const TensorKey& key, const Pieces& pieces) {
  constexpr std::string_view kinds[] = {"the weights before it, ",
                                        "the batch, ",
                                        "forward, the output of a layer, ",
                                        "backward, the gradient of a layer's input, ",
                                        "backward, the gradient of a parameter, ",
                                        "the reduced gradient, ",
                                        "the weights after the update, "};
  std::string name = key.parameter;
  for (const RecordedPiece& piece : pieces)
    if (name.empty() && !piece.received) name = piece.name;
  const std::string where =
      key.micro_batch >= 0 ? fmt::format(", micro-batch {}", key.micro_batch) : "";
  return fmt::format("step {}{}: {}{}{}", key.step, where,
                     kinds[static_cast<std::size_t>(key.what)],
                     key.layer >= 0 ? fmt::format("layer {}, ", key.layer) : "", name);
}

std::string_view cause_of(const TensorKey& key, const std::vector<const RecordedPiece*>& odd,
                          const Pieces& pieces, const Recording& recording) {
  const bool received = std::ranges::all_of(odd, &RecordedPiece::received);
  const auto alike = std::ranges::count(pieces, received, &RecordedPiece::received);
  const bool some = std::ssize(odd) < alike;
  switch (key.what) {
    case Seen::weights_before:
      return "memory of the weights between two steps, or the state that the steps began with";
    case Seen::batch:
      return "data: the loader, its samples or their order";
    case Seen::activation:
    case Seen::gradient:
      if (received) return "a message between pipeline stages, or the memory that received it";
      if (some) return "a sum of the tensor group as received by that rank, or its device";
      return key.what == Seen::activation
                 ? "an operation of this layer's forward pass, or its sum over the tensor group"
                 : "an operation of this layer's backward pass, or its sum over the tensor group";
    case Seen::parameter_gradient:
      return "an operation of this layer's backward pass, its sum over the tensor group, or the "
             "schedule: a micro-batch left out or taken twice";
    case Seen::reduced_gradient:
      return recording.kinds.contains(Seen::parameter_gradient)
                 ? "the collective that reduces gradients, or the addition of tied ones: the "
                   "gradients of each micro-batch are right"
                 : "the collective that reduces gradients, or a backward pass: the gradients of "
                   "single micro-batches are not kept";
    case Seen::weights:
      return "the update, or the memory of the weights after it";
  }
  return "";
}

std::string ranks_text(const std::vector<const RecordedPiece*>& odd) {
  std::set<int> ranks;
  for (const RecordedPiece* const piece : odd)
    ranks.insert(piece->rank);
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

bool ran_twice(const Pieces& pieces) {
  std::set<std::tuple<int, bool, std::vector<std::int64_t>>> seen;
  return !std::ranges::all_of(pieces, [&](const RecordedPiece& piece) {
    return seen.emplace(piece.rank, piece.received, piece.places).second;
  });
}

std::string difference_in(const TensorKey& key, const Recording& recording, const Pieces& pieces,
                          const Recording& reference, const Pieces& expected) {
  if (ran_twice(pieces) && !ran_twice(expected))
    return tensor_text(key, pieces) + ": was computed twice (the schedule)";
  auto odd = odd_pieces(recording, pieces, reference, expected);
  if (odd.empty()) return {};
  // The rank that produced it, not the one that received it.
  if (!std::ranges::all_of(odd, &RecordedPiece::received))
    std::erase_if(odd, [](const RecordedPiece* piece) { return piece->received; });
  std::string element;
  if (has_values(pieces) && has_values(expected))
    element = odd_element(recording, *odd.front(), reference.values(expected));
  return fmt::format("{} differs on {}{}{}; likely {}", tensor_text(key, pieces), ranks_text(odd),
                     element.empty() ? "" : ": ", element, cause_of(key, odd, pieces, recording));
}

}  // namespace

std::int64_t RecordedPiece::place(std::int64_t i) const {
  const std::int64_t base = places[0], width = places[1], stride = places[2], at = places[3] + i;
  return width == 0 ? base + i : base + at / width * stride + at % width;
}

std::map<std::int64_t, float> Recording::values(const Pieces& pieces) const {
  std::map<std::int64_t, float> all;
  std::vector<float> part;
  for (const RecordedPiece& piece : pieces) {
    const std::string path = fmt::format("{}/rank_{}.f32", directory, piece.rank);
    const FileDescriptor file = open_regular_file(path, ExitCode::config);
    const auto floats =
        static_cast<std::int64_t>(regular_file_size(file, path, ExitCode::config) / sizeof(float));
    if (piece.at < 0 || piece.count() < 0 || piece.at > floats || piece.count() > floats - piece.at)
      fail(ExitCode::config, "{}: is shorter than its recording says", path);
    part.resize(static_cast<std::size_t>(piece.count()));
    read_exactly(file, path, static_cast<std::uint64_t>(piece.at) * sizeof(float),
                 std::as_writable_bytes(std::span(part)), ExitCode::config);
    for (std::int64_t i = 0; i < piece.count(); ++i)
      all.emplace(piece.place(i), part[static_cast<std::size_t>(i)]);
  }
  return all;
}

Recording read_recording(const std::string& directory) {
  Recording recording{.directory = directory};
  const auto path_of = [&](int rank) { return fmt::format("{}/rank_{}.jsonl", directory, rank); };
  for (; fs::exists(path_of(recording.ranks)); ++recording.ranks)
    read_rank(path_of(recording.ranks), recording.ranks, recording);
  if (recording.tensors.empty()) {
    const bool is_run = fs::exists(RunDirectory::config_in(directory));
    fail(ExitCode::config,
         "{}: {} ({} does not exist, or is empty); make one with trireme replay {} --step N "
         "--record DIRECTORY",
         directory, is_run ? "is a run, but holds no recording of a step" : "holds no recording",
         path_of(0), is_run ? directory : "RUN");
  }
  return recording;
}

void require_steps(const Recording& recording, std::int64_t first, std::int64_t last) {
  const std::int64_t begins = recording.tensors.begin()->first.step,
                     ends = recording.tensors.rbegin()->first.step;
  if (begins == first && ends == last) return;
  fail(ExitCode::config,
       "--against: {} has steps {} to {}, but steps {} to {} are replayed; use --step {} --steps "
       "{}, or record these steps there too",
       recording.directory, begins, ends, first, last, begins, ends - begins + 1);
}

std::string compare_recordings(const Recording& recording, const Recording& reference) {
  std::set<TensorKey> keys;
  for (const Recording* const one : {&recording, &reference})
    for (const auto& [key, pieces] : one->tensors)
      if (recording.kinds.contains(key.what) && reference.kinds.contains(key.what))
        keys.insert(key);
  for (const TensorKey& key : keys) {
    const auto here = recording.tensors.find(key), there = reference.tensors.find(key);
    if (here == recording.tensors.end())
      return tensor_text(key, there->second) + ": is in the reference only (the schedule)";
    if (there == reference.tensors.end())
      return tensor_text(key, here->second) + ": is not in the reference (the schedule)";
    std::string difference = difference_in(key, recording, here->second, reference, there->second);
    if (!difference.empty()) return difference;
  }
  return {};
}

}  // namespace trireme
