// SPDX-License-Identifier: Apache-2.0
// Private to this module: messages over a job's TCP connections.
#pragma once

#include <vector>

#include "runtime/comm/host/tcp/tcp_mesh.h"
#include "runtime/comm/host/transfers.h"

namespace trireme {

class TcpTransfers final : public Transfers {
 public:
  // The group of all ranks of the job. The mesh must outlive it and groups made from it.
  explicit TcpTransfers(TcpMesh& mesh);

  void send(const std::byte* data, std::size_t bytes, int to, MessageTag tag) override;
  void receive(std::byte* data, std::size_t bytes, int from, MessageTag tag) override;
  void broadcast(std::byte* data, std::size_t bytes, int root) override;
  void barrier() override;
  std::chrono::nanoseconds wait_all() override;
  [[nodiscard]] bool receive_note(std::byte* data, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Transfers> duplicate() override;
  [[nodiscard]] std::unique_ptr<Transfers> split(int color, int key) override;

 private:
  TcpTransfers(TcpMesh& mesh, TcpMesh::Channel channel, std::vector<int> members);
  [[nodiscard]] TcpMesh::Channel next_channel(std::uint64_t color);

  TcpMesh& mesh_;
  TcpMesh::Channel channel_;
  std::vector<int> members_;  // ranks of the job
  std::uint64_t children_ = 0;
  std::vector<std::shared_ptr<TcpRequest>> requests_;
};

}  // namespace trireme
