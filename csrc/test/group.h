// Ranks as threads of this process, joined by shared memory on a host and by sockets between hosts.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/endpoint.h"
#include "runtime/executor.h"
#include "test/check.h"

namespace hemiola::test {

// body(rank) in a thread for each rank; returns when all have returned.
template <typename Body>
void on_all(uint32_t num_ranks, Body body) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

struct GroupOptions {
  runtime::QueueShape shape{4, 1024};
  uint32_t workers = 1;
  double timeout_seconds = 60;
  std::vector<uint32_t> hosts{};  // of every rank; empty: all on one
  uint32_t links = 1;             // between each two ranks on different hosts
};

class Group {
 public:
  explicit Group(uint32_t num_ranks, const GroupOptions& options = {}) {
    for (uint32_t rank = 0; rank < num_ranks; ++rank) {
      endpoints_.push_back(std::make_unique<runtime::Endpoint>(rank, num_ranks, options.shape));
      executors_.push_back(std::make_unique<runtime::Executor>(*endpoints_.back()));
      executors_.back()->set_workers(options.workers);
      runtime::WaitPolicy& policy = executors_.back()->policy;
      policy.spins = 20;
      policy.yield_nanoseconds = 500'000;
      policy.timeout_nanoseconds = static_cast<int64_t>(options.timeout_seconds * 1e9);
    }
    for (uint32_t one = 0; one < num_ranks; ++one)
      for (uint32_t other = 0; other < one; ++other) {
        if (options.hosts.empty() || options.hosts[one] == options.hosts[other]) {
          endpoints_[one]->join_local(other, dup(endpoints_[other]->segment()), 0);
          endpoints_[other]->join_local(one, dup(endpoints_[one]->segment()), 0);
        } else {
          for (uint32_t index = 0; index < options.links; ++index) connect(one, other, index);
        }
      }
  }

  ~Group() { executors_.clear(); }

  uint32_t num_ranks() const { return static_cast<uint32_t>(endpoints_.size()); }
  runtime::Endpoint& endpoint(uint32_t rank) { return *endpoints_[rank]; }
  runtime::Executor& executor(uint32_t rank) { return *executors_[rank]; }

 private:
  // Two hosts are two ends of a TCP connection within this one.
  void connect(uint32_t one, uint32_t other, uint32_t index) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0), calling = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    auto* where = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    CHECK(bind(listener, where, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, where, &size) == 0);
    CHECK(::connect(calling, where, size) == 0);
    const int called = accept(listener, nullptr, nullptr);
    CHECK(called >= 0);
    close(listener);
    for (const int end : {calling, called}) {
      const int yes = 1;
      CHECK(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0);
    }
    endpoints_[one]->join_socket(other, index, calling);
    endpoints_[other]->join_socket(one, index, called);
  }

  std::vector<std::unique_ptr<runtime::Endpoint>> endpoints_;
  std::vector<std::unique_ptr<runtime::Executor>> executors_;
};

// The shape of a call of `elements` numbers a share, the same on every rank.
inline runtime::CallShape call_of(uint64_t elements, uint64_t content = 1, const std::string& description = "a call") {
  runtime::CallShape call;
  call.type = runtime::ElementType::i64;
  call.elements = elements;
  call.content = content;
  call.description = std::make_shared<std::string>(description);
  return call;
}

}  // namespace hemiola::test
