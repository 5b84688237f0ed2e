// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/health/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"
#include "runtime/ops/gemm/linear.h"

namespace trireme {
namespace {

constexpr std::int64_t repeats = 8;  // sums stay below 2^24, where f32 is exact for integers
constexpr std::int64_t exchanges = 4;

constexpr std::int64_t small_size = 256;
// Keeps a GPU busy for longer than a launch takes.
std::int64_t largest_size(DeviceType type) {
  return type == DeviceType::cpu ? small_size : 2048;
}

std::int64_t message_words(DeviceType type) {
  return type == DeviceType::cpu ? 1 << 16 : 1 << 22;
}

// splitmix64 (Steele et al., 2014).
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

// The message of rank `rank`: arbitrary bits, which are only moved.
std::uint32_t message_word(int rank, std::int64_t index) {
  return static_cast<std::uint32_t>(
      mixed((static_cast<std::uint64_t>(rank) << 40U) + static_cast<std::uint64_t>(index)));
}

void put_entry(std::byte* to, DType dtype, int entry) {
  if (dtype == DType::f32) {
    const auto value = static_cast<float>(entry);
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const unsigned one = dtype == DType::bf16 ? 0x3F80U : 0x3C00U;
  const unsigned sign = entry < 0 ? 0x8000U : 0U;
  const auto bits = static_cast<std::uint16_t>(entry == 0 ? 0U : one | sign);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace

int test_entry(int operand, std::int64_t index) {
  const auto key = (static_cast<std::uint64_t>(operand) << 48U) + static_cast<std::uint64_t>(index);
  return static_cast<int>(mixed(key) % 3) - 1;
}

std::int64_t wrong_rows(std::span<const float> sums, std::int64_t n, std::int64_t times) {
  const auto count = static_cast<std::size_t>(n);
  // Odd weights keep a single wrong element visible.
  const auto weight = [](std::size_t column) {
    return static_cast<std::int64_t>(column % 7) * 2 + 1;
  };
  std::vector<std::int64_t> right(count), expected(count);
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t column = 0; column < count; ++column)
      right[row] += weight(column) * test_entry(1, static_cast<std::int64_t>(row * count + column));
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t column = 0; column < count; ++column)
      expected[column] +=
          times * right[row] * test_entry(0, static_cast<std::int64_t>(row * count + column));
  std::int64_t wrong = 0;
  for (std::size_t row = 0; row < count; ++row) {
    // Exact: integers far below 2^53. A fraction could be lost in rounding.
    double sum = 0;
    bool whole = true;
    for (std::size_t column = 0; column < count; ++column) {
      const double value = sums[row * count + column];
      whole &= value == std::trunc(value);
      sum += static_cast<double>(weight(column)) * value;
    }
    if (!whole || sum != static_cast<double>(expected[row])) ++wrong;
  }
  return wrong;
}

[[gnu::weak]] void planted_wrong_device(TestedPart /*part*/, Stream& /*stream*/,
                                        const Tensor& /*values*/) {}

SelfTest::SelfTest(Device& device, const ProcessMesh& mesh, Streams& streams, DType compute)
    : device_(device),
      mesh_(mesh),
      streams_(streams),
      compute_(compute),
      size_(0),
      start_(device.make_event(EventKind::timed)),
      end_(device.make_event(EventKind::timed)) {
  const std::int64_t largest = largest_size(device.type());
  const auto values = static_cast<std::size_t>(largest * largest);
  const std::size_t operand = values * size_of(compute);
  left_ = Buffer(device, operand, MemoryKind::device);
  right_ = Buffer(device, operand, MemoryKind::device);
  product_ = Buffer(device, values * sizeof(float), MemoryKind::device);
  product_host_ = Buffer(device, values * sizeof(float), MemoryKind::host);
  if (mesh.world().size() == 1) return;
  const auto message = static_cast<std::size_t>(message_words(device.type())) * sizeof(float);
  sent_ = Buffer(device, message, MemoryKind::device);
  received_ = Buffer(device, message, MemoryKind::device);
  message_host_ = Buffer(device, message, MemoryKind::host);
}

// A device that is slow on the small product, such as an emulated one, gets no larger one, which is
// 512 times the work. GPUs take hundredths of a millisecond, a core at 100 GFLOP/s a third of one.
void SelfTest::choose_size() {
  constexpr double long_milliseconds = 0.2;
  Stream& compute = *streams_.compute;
  const Shape shape{small_size, small_size};
  for (const Buffer* const buffer : {&left_, &right_, &product_})
    device_.fill_zero(compute, buffer->data(), buffer->bytes());
  for (int i = 0; i < 2; ++i) {  // the first call chooses its algorithm
    compute.record(*start_);
    ops::linear_backward_weight(compute, product_.view(DType::f32, shape), {},
                                left_.view(compute_, shape), right_.view(compute_, shape));
    compute.record(*end_);
  }
  end_->synchronize();
  const bool slow = end_->milliseconds_since(*start_) > long_milliseconds;
  size_ = slow ? small_size : largest_size(device_.type());
}

// The operands are rewritten each time, so that a flipped bit in them is not reported forever; they
// pass through the host memory of the product.
void SelfTest::fill_operands() {
  Stream& compute = *streams_.compute;
  for (int operand = 0; operand < 2; ++operand) {
    const Buffer& to = operand == 0 ? left_ : right_;
    for (std::int64_t i = 0; i < size_ * size_; ++i)
      put_entry(product_host_.data() + static_cast<std::size_t>(i) * size_of(compute_), compute_,
                test_entry(operand, i));
    const auto values = static_cast<std::size_t>(size_ * size_);
    device_.copy(compute, to.data(), product_host_.data(), values * size_of(compute_));
    compute.synchronize();
  }
  device_.fill_zero(compute, product_.data(), product_.bytes());
}

// The fastest repeat counts: other load must not look like a fault.
void SelfTest::multiply(HealthSample& sample) {
  if (size_ == 0) choose_size();
  fill_operands();
  Stream& compute = *streams_.compute;
  const Shape shape{size_, size_};
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < repeats; ++i) {
    compute.record(*start_);
    ops::linear_backward_weight(compute, product_.view(DType::f32, shape), {},
                                left_.view(compute_, shape), right_.view(compute_, shape));
    compute.record(*end_);
    end_->synchronize();
    best = std::min(best, end_->milliseconds_since(*start_));
  }
  planted_wrong_device(TestedPart::product, compute, product_.view(DType::f32, shape));
  device_.copy(compute, product_host_.data(), product_.data(), product_.bytes());
  compute.synchronize();
  const auto n = static_cast<double>(size_);
  sample.gflops = 2e-6 * n * n * n / std::max(best, 1e-6);
  sample.wrong_rows =
      static_cast<double>(wrong_rows({reinterpret_cast<const float*>(product_host_.data()),
                                      static_cast<std::size_t>(size_ * size_)},
                                     size_, repeats));
}

// Around the ring of all ranks, all at once: each link carries one message at a time.
void SelfTest::exchange(HealthSample& sample) {
  Communicator& world = mesh_.world();
  const int ranks = world.size(), own = world.rank();
  const int next = (own + 1) % ranks, before = (own + ranks - 1) % ranks;
  const std::int64_t words = message_words(device_.type());
  auto* const host = reinterpret_cast<std::uint32_t*>(message_host_.data());
  for (std::int64_t i = 0; i < words; ++i)
    host[i] = message_word(own, i);
  Stream& comm = *streams_.comm;
  device_.copy(comm, sent_.data(), host, sent_.bytes());
  double best = std::numeric_limits<double>::infinity();
  const ScopedCommLabel label("self test");
  for (std::int64_t i = 0; i < exchanges; ++i) {
    device_.fill_zero(comm, received_.data(), received_.bytes());
    comm.record(*start_);
    world.group_begin();
    world.send(comm, sent_.view(DType::f32, Shape{words}), next);
    world.recv(comm, received_.view(DType::f32, Shape{words}), before);
    world.group_end(comm);
    comm.record(*end_);
    end_->synchronize();
    best = std::min(best, end_->milliseconds_since(*start_));
  }
  planted_wrong_device(TestedPart::message, comm, received_.view(DType::f32, Shape{words}));
  device_.copy(comm, host, received_.data(), received_.bytes());
  comm.synchronize();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < words; ++i)
    if (host[i] != message_word(before, i)) ++wrong;
  sample.link_mb_per_s = 1e-3 * static_cast<double>(sent_.bytes()) / std::max(best, 1e-6);
  sample.wrong_words = static_cast<double>(wrong);
}

std::vector<HealthSample> SelfTest::run() {
  Communicator& world = mesh_.world();
  streams_.compute->synchronize();
  streams_.comm->synchronize();
  HealthSample own;
  multiply(own);
  if (world.size() > 1) exchange(own);
  std::vector<HealthSample> all(static_cast<std::size_t>(world.size()));
  constexpr std::int64_t values = sizeof(HealthSample) / sizeof(double);
  const auto tensor_of = [](HealthSample* samples, std::size_t count) {
    return Tensor{reinterpret_cast<std::byte*>(samples), DType::f64,
                  Shape{static_cast<std::int64_t>(count) * values}};
  };
  const HostStream stream;
  world.all_gather(*stream, tensor_of(&own, 1), tensor_of(all.data(), all.size()));
  return all;
}

}  // namespace trireme
