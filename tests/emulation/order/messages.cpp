// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/messages.h"

#include "tests/emulation/order/operations.h"

namespace trireme::emulated::order {
namespace {

constexpr int first_tag = 100;

}  // namespace

void Messages::send(MPI_Comm comm, int to, int tag, std::vector<MPI_Request>& requests) {
  if (!on()) return;
  Clock clock = running->lane->clock;
  if (!only_sends_) clock.set(running->lane->index(), running->lane->ticks - 1);
  const auto& ticks = sent_.emplace_back(clock.ticks());
  MPI_Isend(ticks.data(), static_cast<int>(ticks.size()), MPI_UINT32_T, to, first_tag + tag, comm,
            &requests.emplace_back());
}

void Messages::receive(MPI_Comm comm, int from, int tag, std::vector<MPI_Request>& requests) {
  if (!on()) return;
  auto& ticks = received_.emplace_back(Clock().ticks());
  MPI_Irecv(ticks.data(), static_cast<int>(ticks.size()), MPI_UINT32_T, from, first_tag + tag, comm,
            &requests.emplace_back());
}

void Messages::merge() {
  for (const auto& ticks : received_)
    running->lane->clock.merge(ticks);
}

}  // namespace trireme::emulated::order
