// SPDX-License-Identifier: Apache-2.0
// Private to this module: messages between the ranks of one group; collectives are built on them.
// Calls post a message and return; wait_all() completes all of them. Messages of one sender,
// receiver and tag arrive in order. Transports: MPI (mpi_transfers.h), TCP (tcp_transfers.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme {

// Keeps user messages and those of collectives apart.
enum class MessageTag : int { user = 1, collective = 2, note = 3 };

class Transfers {
 public:
  virtual ~Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  // The memory must not change until wait_all().
  virtual void send(const std::byte* data, std::size_t bytes, int to, MessageTag tag) = 0;
  virtual void receive(std::byte* data, std::size_t bytes, int from, MessageTag tag) = 0;
  virtual void broadcast(std::byte* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;
  // Polls, and sleeps in between (see README.md). Returns how long it has waited, 0 where all was
  // done at the first polls: a message of a microsecond is not worth reading clocks for.
  virtual std::chrono::nanoseconds wait_all() = 0;
  // Takes a complete message tagged `note` from any rank, if one has arrived. Does not wait.
  [[nodiscard]] virtual bool receive_note(std::byte* data, std::size_t bytes) = 0;

  // A group of the same ranks with separate messages. Collective.
  [[nodiscard]] virtual std::unique_ptr<Transfers> duplicate() = 0;
  // Ranks with equal `color`, ordered by `key`. Collective.
  [[nodiscard]] virtual std::unique_ptr<Transfers> split(int color, int key) = 0;
  // Leaks the group's resources until the process ends, because peers may be gone.
  void abandon() { abandoned_ = true; }

 protected:
  Transfers(int rank, int size) : rank_(rank), size_(size) {}
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  int rank_;
  int size_;
  bool abandoned_ = false;
};

// A new group of messages between all ranks of the job, or null in a job of one. Collective.
[[nodiscard]] std::unique_ptr<Transfers> make_job_transfers();

}  // namespace trireme
