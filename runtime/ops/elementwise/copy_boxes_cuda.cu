// SPDX-License-Identifier: Apache-2.0
// Boxes are passed by value, a few for each launch; a thread copies the widest pack that starts and
// ends at a pack in every box.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/elementwise/copy_boxes.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;
constexpr int boxes_of_launch = 24;  // a kernel's parameters have at most 4 kB

struct Boxes {
  BoxCopy box[boxes_of_launch];
  int count;
};

template <int width>
__global__ void copy_boxes_kernel(std::byte* to, const std::byte* from, Boxes boxes) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  for (int b = 0; b < boxes.count; ++b) {
    const BoxCopy& box = boxes.box[b];
    const std::int64_t count = box.counts[0] * box.counts[1] * box.counts[2] * box.counts[3];
    for (std::int64_t i = first; i < count; i += stride) {
      std::int64_t rest = i;
      const std::int64_t x = rest % box.counts[3];
      rest /= box.counts[3];
      const std::int64_t c = rest % box.counts[2];
      rest /= box.counts[2];
      const std::int64_t b1 = rest % box.counts[1], a = rest / box.counts[1];
      const auto place = [&](std::int64_t begin, const auto& strides) {
        return (begin + a * strides[0] + b1 * strides[1] + c * strides[2] + x) * width;
      };
      store_pack(to + place(box.to, box.to_strides),
                 load_pack<width>(from + place(box.from, box.from_strides)));
    }
  }
}

// The largest power of two up to 16 that divides everything.
class CommonWidth {
 public:
  void divide(std::int64_t bytes) { all_ |= bytes; }
  [[nodiscard]] std::int64_t value() const {
    const std::int64_t lowest = all_ & -all_;
    return lowest == 0 || lowest > pack_bytes ? pack_bytes : lowest;
  }

 private:
  std::int64_t all_ = 0;
};

BoxCopy in_packs(BoxCopy box, std::int64_t size, std::int64_t width) {
  const auto scale = [&](std::int64_t& value) { value = value * size / width; };
  scale(box.to);
  scale(box.from);
  scale(box.counts[3]);
  for (std::size_t i = 0; i < 3; ++i) {
    scale(box.to_strides[i]);
    scale(box.from_strides[i]);
  }
  return box;
}

}  // namespace

void copy_boxes(Stream& stream, const Tensor& to, const Tensor& from,
                std::span<const BoxCopy> boxes) {
  const auto size = static_cast<std::int64_t>(size_of(to.dtype));
  CommonWidth common;
  common.divide(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to.data)));
  common.divide(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from.data)));
  for (const BoxCopy& box : boxes) {
    for (const std::int64_t number : {box.to, box.from, box.counts[3]})
      common.divide(number * size);
    for (std::size_t i = 0; i < 3; ++i) {
      if (box.counts[i] == 1) continue;
      common.divide(box.to_strides[i] * size);
      common.divide(box.from_strides[i] * size);
    }
  }
  const std::int64_t width = common.value();
  const auto kernel = width == 16  ? copy_boxes_kernel<16>
                      : width == 8 ? copy_boxes_kernel<8>
                      : width == 4 ? copy_boxes_kernel<4>
                      : width == 2 ? copy_boxes_kernel<2>
                                   : copy_boxes_kernel<1>;
  for (std::size_t first = 0; first < boxes.size(); first += boxes_of_launch) {
    Boxes some{
        .box = {},
        .count = static_cast<int>(std::min<std::size_t>(boxes_of_launch, boxes.size() - first))};
    std::int64_t largest = 0;
    for (int b = 0; b < some.count; ++b) {
      some.box[b] = in_packs(boxes[first + static_cast<std::size_t>(b)], size, width);
      largest = std::max(largest, some.box[b].count());
    }
    launch(stream, grid_for(stream, largest, threads, threads), kernel, to.data, from.data, some);
  }
}

TRIREME_CUDA_PROVIDES(ops, copy_boxes);

}  // namespace trireme::ops::cuda
