// SPDX-License-Identifier: Apache-2.0
#include "models/spatial/box_exchange.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace trireme {
namespace {

// A part of a box that lies in one slab of the tensor.
struct Piece {
  SpatialBox part{};
  std::size_t slab = 0;
  std::optional<std::size_t> own_box{};  // the box of this rank that needs it
};

// A message's pieces, one after another.
std::int64_t elements_of(const std::vector<Piece>& pieces, std::int64_t samples,
                         std::int64_t channels) {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0},
                         [&](std::int64_t sum, const Piece& piece) {
                           return sum + samples * piece.part.volume() * channels;
                         });
}

}  // namespace

ops::BoxCopy box_copy(const SpatialBox& part, const SpatialBox& to, const SpatialBox& from,
                      std::int64_t samples, std::int64_t channels) {
  // (N, D, H, W * C) of each side.
  const auto strides = [&](const SpatialBox& box) {
    const std::int64_t line = box.extent(2) * channels, plane = box.extent(1) * line;
    return std::array<std::int64_t, 3>{box.extent(0) * plane, plane, line};
  };
  const auto first = [&](const SpatialBox& box) {
    const auto by = strides(box);
    return (part.begin[0] - box.begin[0]) * by[1] + (part.begin[1] - box.begin[1]) * by[2] +
           (part.begin[2] - box.begin[2]) * channels;
  };
  return {.to = first(to),
          .from = first(from),
          .counts = {samples, part.extent(0), part.extent(1), part.extent(2) * channels},
          .to_strides = strides(to),
          .from_strides = strides(from)};
}

SlabCopy::SlabCopy(const Slabs& slabs, const SpatialBox& from, std::int64_t channels) {
  const std::int64_t samples = slabs.whole()[0];
  for (const Slabs::Slab& slab : slabs.local()) {
    copies_.push_back(box_copy(slab.box, slab.box, from, samples, channels));
    copies_.back().to += slab.first * samples * channels;
  }
}

BoxExchange::BoxExchange(Blueprint& blueprint, const Shape& source, const std::vector<Need>& needs,
                         DType dtype, bool keep, std::size_t after)
    : slabs_(blueprint.spatial(), source),
      rank_(blueprint.spatial().rank),
      sent_(static_cast<std::size_t>(blueprint.spatial().rank_count())),
      received_(sent_.size()),
      workspace_end_(after) {
  const std::int64_t samples = source[0], channels = source.back();
  const auto peer = [](int rank) { return static_cast<std::size_t>(rank); };
  const SpatialBox all = box_of(source);
  std::vector<std::vector<Piece>> to(sent_.size()), from(sent_.size());
  std::vector<std::int64_t> sent_by(sent_.size());
  for (const Need& need : needs) {
    if (need.rank == rank_)
      boxes_.push_back({.box = need.box, .sticks_out = need.box.intersect(all) != need.box});
    for (std::size_t s = 0; s < slabs_.all().size(); ++s) {
      const Slabs::Slab& slab = slabs_.all()[s];
      const SpatialBox part = need.box.intersect(slab.box);
      if (part.volume() == 0) continue;
      const bool here = slab.rank == rank_;
      if (slabs_.cut() && slab.rank != need.rank)
        sent_by[peer(slab.rank)] += samples * part.volume() * channels;
      if (need.rank != rank_) {
        if (here && slabs_.cut()) to[peer(need.rank)].push_back({part, s});
        continue;
      }
      OwnBox& box = boxes_.back();
      if (!here) {
        from[peer(slab.rank)].push_back({part, s, boxes_.size() - 1});
        continue;
      }
      if (slab.box == need.box) box.slab = static_cast<std::ptrdiff_t>(s);
      box.local.push_back(box_copy(part, need.box, slab.box, samples, channels));
      box.local.back().from += slab.first * samples * channels;
    }
  }
  std::int64_t out = 0, in = 0, region = 0;
  for (std::size_t p = 0; p < sent_.size(); ++p) {
    sent_[p] = elements_of(to[p], samples, channels);
    received_[p] = elements_of(from[p], samples, channels);
    for (const Piece& piece : to[p]) {
      const Slabs::Slab& slab = slabs_.all()[piece.slab];
      packed_.push_back(box_copy(piece.part, piece.part, slab.box, samples, channels));
      packed_.back().from += slab.first * samples * channels;
      packed_.back().to += out;
      out += samples * piece.part.volume() * channels;
    }
    for (const Piece& piece : from[p]) {
      OwnBox& box = boxes_[*piece.own_box];
      box.received.push_back(box_copy(piece.part, box.box, piece.part, samples, channels));
      box.received.back().from += in;
      in += samples * piece.part.volume() * channels;
    }
  }
  for (const OwnBox& box : boxes_)
    if (box.slab < 0) region = std::max(region, samples * box.box.volume() * channels);
  if (const std::int64_t most = *std::ranges::max_element(sent_by); most > 0)
    blueprint.traffic().exchanges.push_back(static_cast<double>(most) *
                                            static_cast<double>(size_of(dtype)));
  const auto in_workspace = [&](std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    Activation taken = blueprint.workspace(bytes, workspace_end_);
    workspace_end_ = taken.offset + bytes;
    taken.dtype = dtype;
    taken.shape = Shape{count};
    return taken;
  };
  if (out > 0) send_ = in_workspace(out);
  if (in > 0) receive_ = keep ? blueprint.keep(Shape{in}, dtype) : in_workspace(in);
  if (region > 0) region_ = in_workspace(region);
}

void BoxExchange::start(const Context& context, const Tensor& source) const {
  if (send_.shape.rank() == 0 && receive_.shape.rank() == 0) return;
  const Tensor send = send_.shape.rank() > 0 ? context(send_) : Tensor{};
  const Tensor receive = receive_.shape.rank() > 0 ? context(receive_) : Tensor{};
  ops::copy_boxes(context.stream, send, source, packed_);
  thread_local std::vector<TensorGroup::Message> messages;  // a steady step allocates nothing
  messages.clear();
  std::int64_t out = 0, in = 0;
  for (std::size_t p = 0; p < sent_.size(); ++p) {
    TensorGroup::Message message{.peer = static_cast<int>(p)};
    if (sent_[p] > 0) message.send = send.range(out, sent_[p]);
    if (received_[p] > 0) message.receive = receive.range(in, received_[p]);
    out += sent_[p];
    in += received_[p];
    if (sent_[p] > 0 || received_[p] > 0) messages.push_back(message);
  }
  context.tensor->start_exchange(context.stream, messages);
}

void BoxExchange::finish(const Context& context) const {
  if (send_.shape.rank() > 0 || receive_.shape.rank() > 0) context.tensor->finish(context.stream);
}

Tensor BoxExchange::box(const Context& context, const Tensor& source, std::size_t i) const {
  const OwnBox& own = boxes_[i];
  if (own.slab >= 0) return slabs_.of(source, slabs_.all()[static_cast<std::size_t>(own.slab)]);
  const Shape shape = this->shape(i);
  const Tensor region = context(region_).range(0, shape.count()).reshaped(shape);
  copy_box(context, region, source, i);
  return region;
}

void BoxExchange::copy_box(const Context& context, const Tensor& to, const Tensor& source,
                           std::size_t i) const {
  const OwnBox& own = boxes_[i];
  if (own.sticks_out) context.stream.device().fill_zero(context.stream, to.data, to.bytes());
  ops::copy_boxes(context.stream, to, source, own.local);
  if (!own.received.empty()) ops::copy_boxes(context.stream, to, context(receive_), own.received);
}

}  // namespace trireme
