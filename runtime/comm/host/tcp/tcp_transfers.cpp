// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_transfers.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/base/checksum.h"
#include "runtime/comm/host/backoff.h"

namespace trireme {
namespace {

constexpr TcpMesh::Channel world_channel = 1;

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

int place_of(const std::vector<int>& members, int rank) {
  return static_cast<int>(std::ranges::find(members, rank) - members.begin());
}

}  // namespace

TcpTransfers::TcpTransfers(TcpMesh& mesh)
    : TcpTransfers(mesh, world_channel, everybody(mesh.size())) {}

TcpTransfers::TcpTransfers(TcpMesh& mesh, TcpMesh::Channel channel, std::vector<int> members)
    : Transfers(place_of(members, mesh.rank()), static_cast<int>(members.size())),
      mesh_(mesh),
      channel_(channel),
      members_(std::move(members)) {}

void TcpTransfers::send(const std::byte* data, std::size_t bytes, int to, MessageTag tag) {
  auto request = std::make_shared<TcpRequest>();
  request->from = data;
  request->bytes = bytes;
  requests_.push_back(request);
  mesh_.send(members_[static_cast<std::size_t>(to)], channel_, static_cast<int>(tag),
             std::move(request));
}

void TcpTransfers::receive(std::byte* data, std::size_t bytes, int from, MessageTag tag) {
  auto request = std::make_shared<TcpRequest>();
  request->into = data;
  request->bytes = bytes;
  requests_.push_back(request);
  mesh_.receive(members_[static_cast<std::size_t>(from)], channel_, static_cast<int>(tag),
                std::move(request));
}

void TcpTransfers::broadcast(std::byte* data, std::size_t bytes, int root) {
  if (rank() != root) return receive(data, bytes, root, MessageTag::collective);
  for (int step = 1; step < size(); ++step)
    send(data, bytes, (root + step) % size(), MessageTag::collective);
}

// Dissemination barrier: after round k each rank has heard, indirectly, from 2^(k + 1) ranks.
void TcpTransfers::barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    send(nullptr, 0, (rank() + distance) % size(), MessageTag::collective);
    receive(nullptr, 0, (rank() + size() - distance) % size(), MessageTag::collective);
    wait_all();
  }
}

std::chrono::nanoseconds TcpTransfers::wait_all() {
  Backoff backoff;
  std::string problem;
  for (const auto& request : requests_) {
    while (!request->done.load(std::memory_order_acquire))
      backoff.pause();
    if (problem.empty()) problem = request->problem;
  }
  requests_.clear();
  if (!problem.empty()) fail(ExitCode::communication, "TCP: {}", problem);
  return backoff.waited();
}

bool TcpTransfers::receive_note(std::byte* data, std::size_t bytes) {
  return mesh_.receive_arrived(channel_, static_cast<int>(MessageTag::note), data, bytes);
}

TcpMesh::Channel TcpTransfers::next_channel(std::uint64_t color) {
  const std::array<std::uint64_t, 3> path{channel_, ++children_, color};
  return checksum_of({reinterpret_cast<const char*>(path.data()), sizeof(path)});
}

std::unique_ptr<Transfers> TcpTransfers::duplicate() {
  return std::unique_ptr<Transfers>(new TcpTransfers(mesh_, next_channel(0), members_));
}

std::unique_ptr<Transfers> TcpTransfers::split(int color, int key) {
  struct Choice {
    int color, key, rank;
  };
  std::vector<Choice> choices(members_.size());
  const Choice own{color, key, rank()};
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size(), from = (rank() + size() - step) % size();
    send(reinterpret_cast<const std::byte*>(&own), sizeof(own), to, MessageTag::collective);
    receive(reinterpret_cast<std::byte*>(&choices[static_cast<std::size_t>(from)]), sizeof(own),
            from, MessageTag::collective);
  }
  wait_all();
  choices[static_cast<std::size_t>(rank())] = own;
  std::erase_if(choices, [&](const Choice& choice) { return choice.color != color; });
  std::ranges::sort(choices, {}, [](const Choice& c) { return std::pair(c.key, c.rank); });
  std::vector<int> members;
  for (const Choice& choice : choices)
    members.push_back(members_[static_cast<std::size_t>(choice.rank)]);
  const auto channel = next_channel(static_cast<std::uint32_t>(color));
  return std::unique_ptr<Transfers>(new TcpTransfers(mesh_, channel, std::move(members)));
}

}  // namespace trireme
