// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/gather.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/checkpoint/files/safetensors.h"
#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/comm/host_stream.h"

namespace trireme {
namespace {

// Whole buckets, in host memory, of a value that data-parallel ranks may hold only slices of.
class BucketValues {
 public:
  BucketValues(Device& device, const ProcessMesh& mesh, Stream& comm, const ParamStore& params,
               const OwnedValues& owned)
      : device_(device), mesh_(mesh), comm_(comm), params_(params), owned_(owned) {
    std::int64_t widest = 0;
    for (const Bucket& bucket : params.layout().buckets())
      widest = std::max(widest, bucket.count);
    whole_ = Buffer(device, static_cast<std::size_t>(widest) * sizeof(float), MemoryKind::host);
  }
  // A parameter's values as stored here; collective over the ZeRO group. Valid until the next call.
  Tensor of(ParamId id) {
    const ParamLayout& layout = params_.layout();
    const int index = layout.bucket_of(id);
    const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(index)];
    const ParamSpec& spec = layout.spec(id);
    const Shape shape = stored_shape(spec, layout.split(spec));
    const Tensor whole = whole_.view(DType::f32, Shape{bucket.count});
    if (index != cached_) fetch(bucket, whole);
    cached_ = index;
    return whole.range(layout.offset(id) - bucket.first, shape.count());
  }

 private:
  void fetch(const Bucket& bucket, const Tensor& whole) {
    const Tensor own = owned_(bucket);
    const bool sliced = own.count() < bucket.count;
    Communicator& group = bucket.expert ? mesh_.expert_zero() : mesh_.zero();
    const Tensor here = whole.range(sliced ? own.count() * group.rank() : 0, own.count());
    device_.copy(comm_, here.data, own.data, own.bytes());
    comm_.synchronize();
    if (sliced) group.all_gather(*host_, here, whole);
  }

  Device& device_;
  const ProcessMesh& mesh_;
  Stream& comm_;
  const ParamStore& params_;
  const OwnedValues& owned_;
  HostStream host_;
  Buffer whole_;
  int cached_ = -1;
};

void scatter_runs(std::vector<float>& whole, const ParamSpec& spec, const TensorSplit& split,
                  const float* stored) {
  for_each_run(spec, split, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    std::copy_n(stored + from, count, whole.begin() + to);
  });
}

}  // namespace

std::vector<WholeTensor> gather_whole(Device& device, const ProcessMesh& mesh, Stream& comm,
                                      const ParamStore& params, std::span<const PlacedParam> placed,
                                      const OwnedValues& owned, bool with_constants) {
  BucketValues values(device, mesh, comm, params, owned);
  const ParamLayout& layout = params.layout();
  const MeshShape& shape = mesh.shape();
  const int here = mesh.world().rank();
  const HostStream host;
  std::vector<WholeTensor> tensors;
  std::vector<float> received;
  for (const auto& [spec, stage] : placed) {
    if (spec.kind != ParamKind::weight && !with_constants) continue;
    const ParamId id = layout.find(spec.name);
    const bool mine = stage == mesh.here().pipeline;
    TRIREME_EXPECTS(!mine || id.index >= 0, "stage {} has no parameter {}", stage, spec.name);
    const Tensor stored = mine ? values.of(id) : Tensor{};
    TensorSplit split = layout.split(spec);
    const int parts = is_split(spec, split) ? split.ranks : 1;
    if (here == 0) {
      tensors.push_back({spec.name, spec.shape,
                         std::vector<float>(static_cast<std::size_t>(spec.shape.count()))});
    }
    for (int t = 0; t < parts; ++t) {
      const int owner = rank_of(shape, {.pipeline = stage, .data = 0, .tensor = 0}) + t;
      split.rank = t;
      if (here == owner && here != 0) {
        mesh.world().send(*host, stored, 0);
      } else if (here == 0 && owner == 0) {
        scatter_runs(tensors.back().values, spec, split, stored.as<float>());
      } else if (here == 0) {
        received.resize(static_cast<std::size_t>(stored_shape(spec, split).count()));
        const Tensor into{reinterpret_cast<std::byte*>(received.data()), DType::f32,
                          Shape{static_cast<std::int64_t>(received.size())}};
        mesh.world().recv(*host, into, owner);
        scatter_runs(tensors.back().values, spec, split, received.data());
      }
    }
  }
  return tensors;
}

std::string digest_of(std::span<const WholeTensor> tensors) {
  Checksum sum;
  for (const WholeTensor& tensor : tensors) {
    const std::string head = fmt::format("{} {}\n", tensor.name, tensor.shape.to_string());
    sum.update(std::as_bytes(std::span(head)));
    sum.update(std::as_bytes(std::span(tensor.values)));
  }
  return fmt::format("{:016x}", sum.value());
}

void save_weights(const std::string& path, std::span<const WholeTensor> tensors,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> named;
  for (const WholeTensor& tensor : tensors) {
    if (!all_finite(tensor.values))
      fail(ExitCode::non_finite, "{}: was not written, because {} holds NaN or infinity", path,
           tensor.name);
    // Only read from: a view has no const form.
    auto* const data = reinterpret_cast<std::byte*>(const_cast<float*>(tensor.values.data()));
    named.push_back({tensor.name, {data, DType::f32, tensor.shape}});
  }
  write_safetensors(path, named, metadata);
}

}  // namespace trireme
