// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/same_on_all_ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"

namespace trireme {
namespace {

struct Digest {
  std::uint64_t hash = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

template <typename T>
Tensor as_bytes(std::span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::u8,
          Shape{static_cast<std::int64_t>(values.size_bytes())}};
}

std::vector<Digest> gather_digests(Communicator& world, Stream& stream,
                                   std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Digest own{checksum_of(text), bytes.size()};
  std::vector<Digest> all(static_cast<std::size_t>(world.size()));
  world.all_gather(stream, as_bytes(std::span(&own, 1)), as_bytes(std::span(all)));
  return all;
}

std::string text_on(Communicator& world, Stream& stream, int rank, const Digest& digest,
                    std::string_view own) {
  std::string text(own);
  text.resize(digest.bytes);
  world.broadcast(stream, as_bytes(std::span(text)), rank);
  return text;
}

// The line at `begin`, which may be the end of the text.
std::string line_at(std::string_view text, std::size_t begin) {
  if (begin >= text.size()) return "(nothing)";
  constexpr std::size_t longest = 200;
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  return fmt::format("\"{}\"{}", line.substr(0, longest), line.size() > longest ? "..." : "");
}

struct LineDifference {
  std::int64_t number = 1;
  std::string a, b;
};

LineDifference first_difference(std::string_view a, std::string_view b) {
  const auto common = static_cast<std::size_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const std::string_view before = a.substr(0, common);
  const std::size_t newline = before.rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return {1 + std::count(before.begin(), before.end(), '\n'), line_at(a, begin), line_at(b, begin)};
}

void check(Communicator& world, std::string_view what, std::span<const std::byte> bytes,
           bool is_text) {
  const ScopedCommLabel label(what);
  const HostStream stream;
  const auto digests = gather_digests(world, *stream, bytes);
  const auto other = std::find_if(digests.begin(), digests.end(),
                                  [&](const Digest& digest) { return digest != digests[0]; });
  if (other == digests.end()) return;
  const auto rank = static_cast<int>(other - digests.begin());
  const auto hosts = gather_texts(world, host_name());
  const std::string& host = hosts[static_cast<std::size_t>(rank)];
  if (!is_text) {
    fail(ExitCode::config,
         "ranks disagree on {}: rank 0 on {} has {} bytes with XXH3 {:016x}, rank {} on {} has {} "
         "bytes with XXH3 {:016x}; start all ranks from the same files",
         what, hosts[0], digests[0].bytes, digests[0].hash, rank, host, other->bytes, other->hash);
  }
  const std::string_view own(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string text_0 = text_on(world, *stream, 0, digests[0], own);
  const std::string text_r = text_on(world, *stream, rank, *other, own);
  const LineDifference difference = first_difference(text_0, text_r);
  fail(ExitCode::config,
       "ranks disagree on {}: line {} is {} on rank 0 on {} ({} bytes in all) and {} on rank {} on "
       "{} ({} bytes); start all ranks with the same program, files and arguments",
       what, difference.number, difference.a, hosts[0], text_0.size(), difference.b, rank, host,
       text_r.size());
}

// Ranks with the same value, in rank order.
struct Party {
  std::string value, place;  // the place of the first
  std::vector<std::string> ranks;
  std::vector<std::string> hosts;
};

std::vector<Party> parties_of(Communicator& world, const SharedFact& fact) {
  const auto values = gather_texts(world, fact.value);
  const auto places = gather_texts(world, fact.place);
  const auto hosts = gather_texts(world, host_name());
  std::vector<Party> parties;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    auto party = std::ranges::find(parties, values[rank], &Party::value);
    if (party == parties.end()) party = parties.insert(party, {values[rank], places[rank], {}, {}});
    party->ranks.push_back(fmt::format("{}", rank));
    if (std::ranges::find(party->hosts, hosts[rank]) == party->hosts.end())
      party->hosts.push_back(hosts[rank]);
  }
  return parties;
}

// "a, b, c and 5 more"
std::string listed(std::span<const std::string> names) {
  constexpr std::size_t limit = 8;
  const auto shown = names.first(std::min(names.size(), limit));
  const std::string rest =
      names.size() > limit ? fmt::format(" and {} more", names.size() - limit) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), rest);
}

std::string describe(const Party& party) {
  const bool one = party.ranks.size() == 1;
  return fmt::format("{} {} on {} {} {}{}", one ? "rank" : "ranks", listed(party.ranks),
                     listed(party.hosts), one ? "has" : "have", party.value,
                     party.place.empty() ? "" : " in " + party.place);
}

}  // namespace

void check_same_on_all_ranks(Communicator& world, std::string_view what, std::string_view text) {
  check(world, what, std::as_bytes(std::span(text)), true);
}

void check_same_on_all_ranks(Communicator& world, std::string_view what,
                             std::span<const std::byte> bytes) {
  check(world, what, bytes, false);
}

void check_same_on_all_ranks(Communicator& world, const SharedFact& fact) {
  const ScopedCommLabel label(fact.name);
  const HostStream stream;
  const auto digests = gather_digests(world, *stream, std::as_bytes(std::span(fact.value)));
  if (std::ranges::count(digests, digests[0]) == std::ssize(digests)) return;
  std::vector<std::string> texts;
  for (const Party& party : parties_of(world, fact))
    texts.push_back(describe(party));
  fail(fact.code, "{}: ranks disagree: {}; {}", fact.name, listed(texts), fact.advice);
}

std::vector<std::string> gather_texts(Communicator& group, std::string_view own) {
  const HostStream stream;
  const auto ranks = static_cast<std::size_t>(group.size());
  auto length = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> lengths(ranks);
  group.all_gather(*stream, {reinterpret_cast<std::byte*>(&length), DType::i64, Shape{1}},
                   {reinterpret_cast<std::byte*>(lengths.data()), DType::i64, Shape{group.size()}});
  // All ranks send the length of the longest text.
  const std::int64_t width = std::max<std::int64_t>(1, *std::ranges::max_element(lengths));
  std::string padded(own);
  padded.resize(static_cast<std::size_t>(width));
  std::string all(ranks * padded.size(), '\0');
  group.all_gather(
      *stream, {reinterpret_cast<std::byte*>(padded.data()), DType::u8, Shape{width}},
      {reinterpret_cast<std::byte*>(all.data()), DType::u8, Shape{group.size() * width}});
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(lengths[rank])));
  return texts;
}

std::vector<std::string> gather_or_raise(Communicator& group,
                                         const std::function<std::string()>& make) {
  ExitCode code = ExitCode::ok;
  std::string own;
  try {
    own = make();
  } catch (const Error& error) {
    code = error.code();
    own = error.what();
  }
  // Appends the result code to the text.
  own.append(reinterpret_cast<const char*>(&code), sizeof(code));
  std::vector<std::string> texts = gather_texts(group, own);
  for (std::string& text : texts) {
    std::memcpy(&code, text.data() + text.size() - sizeof(code), sizeof(code));
    text.resize(text.size() - sizeof(code));
    if (code != ExitCode::ok) throw Error(code, text);
  }
  return texts;
}

std::string broadcast_text(Communicator& group, std::string text, int root) {
  const HostStream stream;
  auto bytes = static_cast<std::int64_t>(text.size());
  group.broadcast(*stream, {reinterpret_cast<std::byte*>(&bytes), DType::i64, Shape{1}}, root);
  text.resize(static_cast<std::size_t>(bytes));
  group.broadcast(*stream, {reinterpret_cast<std::byte*>(text.data()), DType::u8, Shape{bytes}},
                  root);
  return text;
}

}  // namespace trireme
