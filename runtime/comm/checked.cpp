// SPDX-License-Identifier: Apache-2.0
// The Checked decorator. Before a collective, on the same stream, all ranks of the group exchange
// and compare records of the call; a receive is compared with the record of the send. Records use
// groups of their own, so they never match messages of the inner communicator, and those of
// barrier() and split(), which run on the host, never match those of streams. A disagreement raises
// before the inner call starts, so no rank hangs in it. Records are on the host: before a call on a
// GPU stream the host itself waits for its peers' records.
#include <vector>

#include "runtime/comm/call_record.h"
#include "runtime/comm/host_stream.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

bool is_message(Verb verb) {
  return verb == Verb::send || verb == Verb::recv;
}

class CheckedCommunicator final : public Communicator {
 public:
  explicit CheckedCommunicator(std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->size(), inner->name(), counters_of(*inner)),
        inner_(std::move(inner)),
        records_(inner_->host_sibling(name() + ".records")),
        host_records_(inner_->host_sibling(name() + ".host_records")) {}

  void barrier() override {
    check_host_call(CallRecord::barrier);
    inner_->barrier();
  }

  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override {
    check_host_call(CallRecord::split);
    return make_checked(inner_->split(color, key, std::move(name), role));
  }
  [[nodiscard]] std::unique_ptr<Communicator> host_sibling(std::string name) override {
    check_host_call(CallRecord::split);
    return make_checked(inner_->host_sibling(std::move(name)));
  }

 protected:
  void submit(Stream& stream, const Call& call) override {
    const Pending pending{call};
    if (in_group()) {
      pending_.push_back(pending);
      return;
    }
    check(stream, {&pending, 1});
    inner_->issue(stream, call);
  }

  void submit_group_end(Stream& stream) override {
    check(stream, pending_);
    inner_->group_begin();
    for (const Pending& pending : pending_)
      inner_->issue(stream, pending.call);
    inner_->group_end(stream);
    pending_.clear();
  }

 private:
  struct Pending {
    Call call;
    CommLabel label = current_comm_label();
  };

  // Compares collectives one by one, because ranks that disagree may also disagree on their number.
  void check(Stream& of_calls, std::span<const Pending> calls) {
    Stream& stream = is_host_stream(of_calls) ? of_calls : *host_stream_;
    for (const Pending& pending : calls) {
      if (is_message(pending.call.verb)) continue;
      check_collective(stream, *records_, record_of(pending.call, ++sequence_), pending.label);
    }
    check_messages(stream, calls);
  }

  void check_collective(Stream& stream, Communicator& over, const CallRecord& record,
                        const CommLabel& label) {
    auto all = std::make_shared<std::vector<CallRecord>>(static_cast<std::size_t>(size()));
    (*all)[static_cast<std::size_t>(rank())] = record;
    const std::span<CallRecord> own(&(*all)[static_cast<std::size_t>(rank())], 1);
    over.all_gather(stream, as_bytes(own), as_bytes(*all));
    enqueue(stream, [all, group = &name(), label] { compare_collective(*all, *group, label); });
  }

  void check_messages(Stream& stream, std::span<const Pending> calls) {
    struct Message {
      CallRecord own;
      CallRecord theirs;
      CommLabel label;
    };
    auto messages = std::make_shared<std::vector<Message>>();
    for (const Pending& pending : calls) {
      if (is_message(pending.call.verb))
        messages->push_back({record_of(pending.call, 0), {}, pending.label});
    }
    if (messages->empty()) return;
    records_->group_begin();
    for (Message& message : *messages) {
      if (message.own.kind == static_cast<std::int32_t>(Verb::send)) {
        records_->send(stream, as_bytes({&message.own, 1}), message.own.peer);
      } else {
        records_->recv(stream, as_bytes({&message.theirs, 1}), message.own.peer);
      }
    }
    records_->group_end(stream);
    enqueue(stream, [messages, group = &name(), rank = rank()] {
      for (const Message& message : *messages) {
        if (message.own.kind == static_cast<std::int32_t>(Verb::send)) continue;
        compare_message(message.theirs, message.own.peer, message.own, rank, *group, message.label);
      }
    });
  }

  void check_host_call(std::int32_t kind) {
    check_collective(*host_stream_, *host_records_, host_record(kind, ++host_sequence_),
                     current_comm_label());
  }

  std::unique_ptr<Communicator> inner_;
  HostStream host_stream_;
  std::unique_ptr<Communicator> records_, host_records_;
  std::vector<Pending> pending_;  // calls of the open group
  std::uint64_t sequence_ = 0;
  std::uint64_t host_sequence_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> inner) {
  return std::make_unique<CheckedCommunicator>(std::move(inner));
}

}  // namespace trireme
