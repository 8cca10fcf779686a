#include "runtime/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace hemiola::runtime {

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Mapping::Mapping(int fd, size_t offset, size_t num_bytes) : size_(num_bytes) {
  void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) fail("mapping shared memory");
  data_ = static_cast<std::byte*>(memory);
}

Mapping::Mapping(size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0) return;
  void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("taking memory");
  data_ = static_cast<std::byte*>(memory);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Descriptor make_memory_file(size_t num_bytes) {
  Descriptor file(memfd_create("hemiola", MFD_CLOEXEC));
  if (file.get() < 0) fail("making a memory file");
  if (ftruncate(file.get(), static_cast<off_t>(num_bytes)) != 0) fail("sizing a memory file");
  return file;
}

}  // namespace hemiola::runtime
