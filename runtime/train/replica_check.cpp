// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/replica_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "runtime/base/error.h"
#include "runtime/comm/comm_label.h"
#include "runtime/ops/update/digest.h"

namespace trireme {
namespace {

using Label = std::array<char, 64>;  // "rank 3/8 host", ends with a zero
constexpr std::size_t label_words = sizeof(Label) / sizeof(std::uint64_t);

std::uint64_t* words_of(const Buffer& buffer) {
  return reinterpret_cast<std::uint64_t*>(buffer.data());
}

// 16-bit values in pairs, padded to an even number.
Tensor pairs_of(const Tensor& values) {
  return {values.data, DType::f32, Shape{(values.count() + 1) / 2}};
}

}  // namespace

std::vector<int> odd_ranks(std::span<const std::uint64_t> digest_of_rank) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const std::uint64_t digest : digest_of_rank)
    ++votes[digest];
  std::vector<int> odd;
  for (std::size_t rank = 0; rank < digest_of_rank.size(); ++rank) {
    if (2 * votes[digest_of_rank[rank]] <= digest_of_rank.size())
      odd.push_back(static_cast<int>(rank));
  }
  return odd;
}

ReplicaCheck::ReplicaCheck(Device& device, const ParamStore& params, const ProcessMesh& mesh,
                           Streams& streams)
    : device_(device),
      params_(params),
      streams_(streams),
      shares_experts_(mesh.shape().expert > 1),
      digested_(device.make_event()),
      compared_(device.make_event()) {
  add_parameters();
  const std::size_t bytes = regions_.size() * sizeof(std::uint64_t);
  digests_ = Buffer(device, bytes, MemoryKind::device);
  const auto add = [&](Communicator& ranks, bool Region::*compares) {
    if (ranks.size() == 1 || std::ranges::none_of(regions_, compares)) return;
    groups_.push_back({&ranks, compares, Buffer(device, 2 * bytes, MemoryKind::device),
                       Buffer(device, 2 * bytes, MemoryKind::host)});
  };
  add(mesh.data(), &Region::with_data);
  // The groups of gradients may be busy on other streams.
  if (mesh.shape().shard > 1) {
    replicas_ = mesh.replicas().split(0, mesh.replicas().rank(), "replicas");
    add(*replicas_, &Region::slice);
  }
  if (shares_experts_) {
    const int data = mesh.here().data, sharing = mesh.shape().expert;
    experts_ = mesh.data().split(data % sharing, data / sharing, "expert replicas");
    add(*experts_, &Region::with_experts);
    expert_replicas_ =
        mesh.expert_replicas().split(0, mesh.expert_replicas().rank(), "expert replicas");
    add(*expert_replicas_, &Region::expert_slice);
  }
  tensor_ = mesh.tensor().split(0, mesh.tensor().rank(), "tensor replicas");
  add(*tensor_, &Region::with_tensor);
}

// Every rank lists every parameter, so the lists are equal; a rank may own no part of some.
void ReplicaCheck::add_parameters() {
  const ParamLayout& layout = params_.layout();
  for (const ParamId id : layout.order()) {
    const ParamSpec& spec = layout.spec(id);
    const bool with_tensor = !is_split(spec, layout.split(spec));
    const bool shared = spec.expert && shares_experts_;
    const auto add = [&](const Tensor& values, bool whole, bool in_tensor) {
      regions_.push_back({.name = spec.name,
                          .values = values,
                          .with_data = whole && !shared,
                          .with_tensor = in_tensor,
                          .slice = !whole && !shared,
                          .with_experts = whole && shared,
                          .expert_slice = !whole && shared});
    };
    if (!layout.keeps_slice(layout.bucket(id))) {
      add(params_.master(id), true, with_tensor);
      continue;
    }
    add(params_.masters().owned(id), false, with_tensor);
    if (layout.zero().stage < 3) add(pairs_of(params_.compute(id)), true, false);
  }
}

Tensor ReplicaCheck::digests() const {
  return digests_.view(DType::u64, Shape{static_cast<std::int64_t>(regions_.size())});
}

void ReplicaCheck::start(std::int64_t done) {
  TRIREME_EXPECTS(done_ < 0, "the comparison after step {} is still open", done_);
  if (groups_.empty()) return;
  done_ = done;
  Stream& compute = *streams_.compute;
  device_.fill_zero(compute, digests_.data(), digests_.bytes());
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Tensor digest = digests().range(static_cast<std::int64_t>(i), 1);
    if (!regions_[i].values.empty()) ops::accumulate_digest(compute, digest, regions_[i].values);
  }
  compute.record(*digested_);
  streams_.comm->wait(*digested_);
  for (Group& group : groups_)
    compare(group);
  streams_.comm->record(*compared_);
}

void ReplicaCheck::compare(Group& group) {
  const ScopedCommLabel label("weight digests");
  const Tensor own = digests();
  const Tensor both = group.extremes.view(DType::u64, Shape{2 * own.count()});
  group.ranks->all_reduce(*streams_.comm, own, both.range(0, own.count()), ReduceOp::max);
  group.ranks->all_reduce(*streams_.comm, own, both.range(own.count(), own.count()), ReduceOp::min);
  device_.copy(*streams_.comm, group.host.data(), group.extremes.data(), group.host.bytes());
}

void ReplicaCheck::finish() {
  if (done_ < 0) return;
  compared_->synchronize();
  for (const Group& group : groups_)
    judge(group);
  done_ = -1;
}

void ReplicaCheck::judge(const Group& group) {
  std::vector<std::size_t> differing;
  const std::uint64_t* const largest = words_of(group.host);
  const std::uint64_t* const smallest = largest + regions_.size();
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].*group.compares && largest[i] != smallest[i]) differing.push_back(i);
  }
  if (!differing.empty()) name_odd_one(group, differing);
}

// Collective: all ranks of the group exchange their names and values.
void ReplicaCheck::name_odd_one(const Group& group, std::span<const std::size_t> differing) {
  const auto ranks = static_cast<std::size_t>(group.ranks->size());
  const std::size_t words = label_words + regions_.size();  // per rank
  const auto words_view = [](const Buffer& buffer, std::size_t count) {
    return buffer.view(DType::u64, Shape{static_cast<std::int64_t>(count)});
  };
  Label label{};
  std::copy_n(process_label().data(), std::min(process_label().size(), label.size() - 1),
              label.data());
  const Buffer label_host(device_, sizeof(Label), MemoryKind::host);
  std::memcpy(label_host.data(), label.data(), sizeof(Label));
  const Buffer mine(device_, words * sizeof(std::uint64_t), MemoryKind::device);
  const Buffer all(device_, ranks * mine.bytes(), MemoryKind::device);
  const Buffer host(device_, all.bytes(), MemoryKind::host);
  Stream& comm = *streams_.comm;
  device_.copy(comm, mine.data(), label_host.data(), sizeof(Label));
  device_.copy(comm, mine.data() + sizeof(Label), digests_.data(), digests_.bytes());
  group.ranks->all_gather(comm, words_view(mine, words), words_view(all, ranks * words));
  device_.copy(comm, host.data(), all.data(), host.bytes());
  comm.synchronize();

  std::set<int> odd;
  for (const std::size_t region : differing) {
    std::vector<std::uint64_t> digest_of_rank;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      digest_of_rank.push_back(words_of(host)[rank * words + label_words + region]);
    for (const int rank : odd_ranks(digest_of_rank))
      odd.insert(rank);
  }
  std::string names;
  for (const int rank : odd) {
    names += fmt::format(
        "{}[{}]", names.empty() ? "" : " and ",
        reinterpret_cast<const char*>(words_of(host) + static_cast<std::size_t>(rank) * words));
  }
  const bool majority = odd.size() < ranks;
  fail(ExitCode::communication,
       "replicas of the weights differ after step {}: {} {} in {}{} of group {}; suspect the "
       "memory or the arithmetic of {}: leave it out and resume from a checkpoint before that step "
       "(train.divergence_check_every)",
       done_, names, majority ? "differs from the others" : "differ from each other",
       regions_[differing.front()].name,
       differing.size() == 1 ? "" : fmt::format(" and {} more tensors", differing.size() - 1),
       group.ranks->name(), majority ? "that machine" : "one of these machines");
}

}  // namespace trireme
