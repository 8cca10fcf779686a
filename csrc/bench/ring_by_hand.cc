// What the interpreter costs: the compiled ring plan against a ring written by hand over the same queues.
//
//   ring_by_hand TABLES RANKS BYTES MESSAGE_BYTES ROUNDS REPEATS
//
// TABLES holds the four tables of a compiled allreduce_ring plan for calls in place, one chunk per rank and
// float32, each after its number of rows (benchmarks/interpreter.py writes it). One process per rank; in every
// round both rings run REPEATS times, one and then the other. Prints a line per round: seconds per run of the
// plan and of the ring by hand.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "enforce.h"
#include "runtime/clock.h"
#include "runtime/core_pin.h"
#include "runtime/endpoint.h"
#include "runtime/executor.h"
#include "runtime/kernels.h"

using namespace hemiola;
using namespace hemiola::runtime;

namespace {

constexpr uint32_t kSpins = 2000, kSpinsOversubscribed = 1;
constexpr uint32_t kSlotBytes = 1 << 20;

struct Arguments {
  std::string tables;
  uint32_t num_ranks, message_bytes, rounds, repeats;
  size_t num_bytes;
};

// What the processes share before they know each other.
struct Shared {
  std::atomic<uint32_t> arrived;
  struct {
    int pid, segment;
  } ranks[256];
};

void meet(Shared& shared, uint32_t& meetings, uint32_t num_ranks) {
  shared.arrived.fetch_add(1);
  for (++meetings; shared.arrived.load() < meetings * num_ranks;) sched_yield();
}

struct Tables {
  std::vector<Rank> ranks;
  std::vector<Threadblock> threadblocks;
  std::vector<Step> steps;
  std::vector<Dependency> dependencies;
};

template <typename Row>
void read(std::ifstream& file, std::vector<Row>& rows) {
  uint64_t count = 0;
  file.read(reinterpret_cast<char*>(&count), sizeof(count));
  rows.resize(count);
  file.read(reinterpret_cast<char*>(rows.data()), static_cast<std::streamsize>(count * sizeof(Row)));
  ENFORCE(file.good(), "the file of tables is too short");
}

Tables read_tables(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ENFORCE(file.good(), "cannot read ", path);
  Tables tables;
  read(file, tables.ranks);
  read(file, tables.threadblocks);
  read(file, tables.steps);
  read(file, tables.dependencies);
  return tables;
}

// The ring as one would write it for this transport: reduce around the ring, then copy around it, a tile after
// another, every message straight from one slot into the next, or forwarded where it lies; what is sent next takes the
// place of what came around last in the same sweep. Results go through the caches: in place, they hold what was sent
// from there.
class RingByHand {
 public:
  RingByHand(Endpoint& endpoint, size_t num_bytes, uint32_t message_bytes, uint32_t spins)
      : rank_(endpoint.rank()),
        num_ranks_(endpoint.num_ranks()),
        send_(endpoint.send_end({(rank_ + 1) % num_ranks_, 0})),
        receive_(endpoint.receive_end({(rank_ + num_ranks_ - 1) % num_ranks_, 0})),
        next_(endpoint.bell((rank_ + 1) % num_ranks_)),
        previous_(endpoint.bell((rank_ + num_ranks_ - 1) % num_ranks_)),
        sum_(kernels(ElementType::f32, Operator::sum)),
        chunk_(num_bytes / num_ranks_),
        tile_(message_bytes),
        spins_(spins) {}

  void run(std::byte* data) {
    bool is_sent = false;
    for (size_t at = 0; at < chunk_; at += tile_) {
      const size_t size = std::min<size_t>(tile_, chunk_ - at);
      const auto chunk = [&](uint32_t back) {
        return data + (rank_ + num_ranks_ - back % num_ranks_) % num_ranks_ * chunk_ + at;
      };
      if (!is_sent) {
        copy(slot(size, chunk(0)), chunk(0), size, send_.streams(size));
        send_.publish(0, static_cast<uint32_t>(size));
        ring_next();
      }
      for (uint32_t k = 1; k + 1 < num_ranks_; ++k)
        forward_message(size, chunk(k), [this, size](auto* out, auto* own, auto* in, bool stream) {
          sum_.reduce(out, in, own, size / sizeof(float), stream);
        });
      forward_message(size, chunk(num_ranks_ - 1), [this, size](auto* out, auto* own, auto* in, bool stream) {
        sum_.reduce_both(own, out, in, own, size / sizeof(float), stream_of(false, stream));
      });
      for (uint32_t k = 0; k + 2 < num_ranks_; ++k)
        forward_message(size, chunk(k), [size](auto* out, auto* own, auto* in, bool stream) {
          copy_both(own, out, in, size, stream_of(false, stream));
        });
      is_sent = at + tile_ + size <= chunk_ && exchange(chunk(num_ranks_ - 2), chunk(0) + tile_, size);
      if (!is_sent) receive(chunk(num_ranks_ - 2), size);
    }
  }

 private:
  std::byte* message() {
    const SlotHeader* found;
    for (uint32_t polls = 0; (found = receive_.peek()) == nullptr; ++polls) wait(polls);
    return receive_.payload(found);
  }
  std::byte* slot(size_t size, const std::byte* own) {
    std::byte* found;
    for (uint32_t polls = 0; (found = send_.acquire(size, own)) == nullptr; ++polls) wait(polls);
    return found;
  }
  template <typename Put>
  void forward_message(size_t size, std::byte* own, Put put) {
    std::byte *in = message(), *out = slot(size, own);
    if (send_.can_take_over(*receive_.peek(), Travel::everywhere)) {
      put(in, own, in, false);
      receive_.release(runtime::forward_message(receive_, send_, 0));
    } else {
      put(out, own, in, send_.streams(size));
      send_.publish(0, static_cast<uint32_t>(size));
      receive_.release();
    }
    previous_.ring();
    ring_next();
  }
  bool exchange(std::byte* own, const std::byte* next, size_t size) {
    std::byte* in = message();
    if (!send_.can_take_over(*receive_.peek(), Travel::everywhere) || send_.acquire(size) == nullptr) return false;
    runtime::exchange(own, in, next, size);
    receive_.release(runtime::forward_message(receive_, send_, 0));
    previous_.ring();
    ring_next();
    return true;
  }
  void receive(std::byte* own, size_t size) {
    std::byte* in = message();
    copy(own, in, size, false);
    const SlotHeader& header = *receive_.peek();
    receive_.release(send_.can_take_over(header, Travel::everywhere) ? send_.reuse_buffer(header, in) : header.buffer);
    previous_.ring();
  }
  void ring_next() {
    next_.ring();
    if (send_.holds_up_reader()) sched_yield();
  }
  void wait(uint32_t polls) const {
    if (polls < spins_)
      __builtin_ia32_pause();
    else
      sched_yield();
  }

  uint32_t rank_, num_ranks_;
  SendEnd& send_;
  ReceiveEnd& receive_;
  Bell next_, previous_;
  const Kernels& sum_;
  size_t chunk_, tile_;
  uint32_t spins_;
};

void check(const std::vector<float>& data, float expected, const char* which) {
  for (const float value : data) ENFORCE(value == expected, which, " gave ", value, " instead of ", expected);
}

void be_rank(uint32_t rank, const Arguments& arguments, Shared& shared) {
  uint32_t meetings = 0;
  const QueueShape shape{4, std::max(arguments.message_bytes, kSlotBytes)};
  Endpoint endpoint(rank, arguments.num_ranks, shape);
  shared.ranks[rank].pid = getpid();
  shared.ranks[rank].segment = endpoint.segment();
  meet(shared, meetings, arguments.num_ranks);
  for (uint32_t peer = 0; peer < arguments.num_ranks; ++peer) {
    if (peer == rank) continue;
    const auto& [pid, segment] = shared.ranks[peer];
    const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(segment);
    endpoint.join_local(peer, open(path.c_str(), O_RDWR | O_CLOEXEC), pid);
  }
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const bool share = arguments.num_ranks > cores;
  const uint32_t spins = share ? kSpinsOversubscribed : kSpins;
  // As the runtime does in large calls, but for both rings alike.
  const CorePin pin(share ? static_cast<int>(rank * cores / arguments.num_ranks) : -1);

  const Tables tables = read_tables(arguments.tables);
  const Part part = take_part({tables.ranks, tables.threadblocks, tables.steps, tables.dependencies},
                              {rank, arguments.num_ranks, 1, 0});
  Executor executor(endpoint);
  executor.ranks_per_core = static_cast<uint32_t>((arguments.num_ranks + cores - 1) / cores);
  executor.policy = {spins, 10'000'000'000, 10'000'000'000, 60'000'000'000};
  CallShape call;
  call.elements = arguments.num_bytes / sizeof(float);
  call.message_bytes = arguments.message_bytes;
  call.description = std::make_shared<std::string>("the compiled ring");
  RingByHand by_hand(endpoint, arguments.num_bytes, arguments.message_bytes, spins);

  std::vector<float> data(call.elements, 1.0f);
  auto* bytes = reinterpret_cast<std::byte*>(data.data());
  const auto by_plan = [&] {
    const Failure failure = executor.run(part, call, bytes, bytes, nullptr);
    ENFORCE(!failure, failure.text);
  };
  by_plan();
  check(data, static_cast<float>(arguments.num_ranks), "the plan");
  std::fill(data.begin(), data.end(), 1.0f);
  by_hand.run(bytes);
  check(data, static_cast<float>(arguments.num_ranks), "the ring by hand");

  const auto seconds = [&](const auto& run) {
    std::fill(data.begin(), data.end(), 0.0f);
    run();
    meet(shared, meetings, arguments.num_ranks);
    const int64_t begin = now();
    for (uint32_t k = 0; k < arguments.repeats; ++k) run();
    meet(shared, meetings, arguments.num_ranks);
    return static_cast<double>(now() - begin) * 1e-9 / arguments.repeats;
  };
  for (uint32_t round = 0; round < arguments.rounds; ++round) {
    const bool plan_first = round % 2 == 0;
    double plan = plan_first ? seconds(by_plan) : 0;
    const double hand = seconds([&] { by_hand.run(bytes); });
    if (!plan_first) plan = seconds(by_plan);
    if (rank == 0) std::printf("%.9f %.9f\n", plan, hand);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 7) {
    std::fprintf(stderr, "usage: ring_by_hand TABLES RANKS BYTES MESSAGE_BYTES ROUNDS REPEATS\n");
    return 2;
  }
  const auto number = [&](int k) { return static_cast<uint32_t>(std::atoll(words[k])); };
  const Arguments arguments{words[1], number(2), number(4), number(5), number(6), std::strtoull(words[3], nullptr, 10)};
  ENFORCE(arguments.num_ranks >= 2 && arguments.num_ranks <= 256 &&
          arguments.num_bytes % (arguments.num_ranks * sizeof(float)) == 0);
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ENFORCE(memory != MAP_FAILED);
  auto& shared = *static_cast<Shared*>(memory);
  for (uint32_t rank = 0; rank < arguments.num_ranks; ++rank)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      be_rank(rank, arguments, shared);
      std::fflush(stdout);
      _exit(0);
    }
  int worst = 0;
  for (uint32_t rank = 0; rank < arguments.num_ranks; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) {
      kill(0, SIGTERM);
      worst = 1;
    }
  }
  return worst;
}
