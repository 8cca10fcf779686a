// A range of a file in memory, unmapped at the end; and files that are nothing but memory.
#pragma once

#include <cstddef>

namespace hemiola::runtime {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, size_t offset, size_t num_bytes);  // shared; throws std::system_error
  explicit Mapping(size_t num_bytes);                // private, zero
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Anonymous memory that other processes can map through the descriptor. It has no name, so it is gone with
// the last process that has it, however that ends. Pages that nobody touches take no memory.
Descriptor make_memory_file(size_t num_bytes);

}  // namespace hemiola::runtime
