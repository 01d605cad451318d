// SPDX-License-Identifier: Apache-2.0
#include "fuse/session.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "base/thread_check.h"
#include "fuse/callbacks.h"
#include "fuse/core.h"

namespace sandbar::fuse {
namespace {

/// Requests that are read before the loop's other work gets its turn; a write brings 1 MiB.
constexpr int kRequestsPerTurn = 32;

/// /dev/fuse, opened by libfuse, which also closes it.
class KernelDevice final : public Device {
 public:
  explicit KernelDevice(int fd) : fd_(fd) {}
  ssize_t read(void* into, std::size_t size) override { return ::read(fd_, into, size); }
  ssize_t write(struct iovec* parts, int count) override {
    const ssize_t written = ::writev(fd_, parts, count);
    // The file system was unmounted meanwhile: to a reply that is the same as a request that was given up, and libfuse
    // has nothing to say about it.
    if (written < 0 && errno == ENODEV) errno = ENOENT;
    return written;
  }

 private:
  int fd_;
};

ssize_t read_device(int /*fd*/, void* into, std::size_t size, void* userdata) {
  Device* device = static_cast<Core*>(userdata)->device;
  if (device != nullptr) return device->read(into, size);
  errno = ENODEV;
  return -1;
}

ssize_t write_device(int /*fd*/, struct iovec* parts, int count, void* userdata) {
  Core& core = *static_cast<Core*>(userdata);
  Device* device = core.device;
  if (core.add_to_init != 0 && count == 2 && parts[1].iov_len >= offsetof(fuse_init_out, max_background))
    static_cast<fuse_init_out*>(parts[1].iov_base)->flags |= std::exchange(core.add_to_init, 0);
  if (device != nullptr) return device->write(parts, count);
  errno = ENOENT;
  return -1;
}

void log_of_libfuse(fuse_log_level level, const char* format, std::va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  base::log(level <= FUSE_LOG_ERR ? base::LogLevel::warning : base::LogLevel::debug, one_line(text.data()));
}

/// A libfuse session without a device.
Result<std::shared_ptr<Core>> make_core(base::Loop& loop, vfs::FileSystem& files, const MountOptions& mount,
                                        const SessionOptions& options) {
  auto core = std::make_shared<Core>(loop, files, options);
  const std::vector<std::string> words = mount_arguments(mount);
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  for (const std::string& word : words)
    if (fuse_opt_add_arg(&arguments, word.c_str()) != 0) return os_error(ENOMEM, "mount");
  const fuse_lowlevel_ops table = operations();
  core->session = fuse_session_new(&arguments, &table, sizeof(table), core.get());
  fuse_opt_free_args(&arguments);
  if (core->session == nullptr) return make_error(Errc::invalid, "mount", "libfuse refuses the mount options");
  return core;
}

/// Reads and writes go through `device` from here on; `fd` is closed with libfuse's session.
Result<void> set_device(Core& core, Device& device, int fd) {
  fuse_custom_io io{};
  io.read = read_device;
  io.writev = write_device;
  core.device = &device;
  if (const int error = fuse_session_custom_io(core.session, &io, fd); error != 0) return os_error(-error, "mount");
  return {};
}

}  // namespace

struct Session::Buffer {
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(buffer.mem); }
  fuse_buf buffer{};  // libfuse allocates the memory at the first read
};

Session::Session(std::shared_ptr<Core> core, Handler& handler)
    : core_(std::move(core)), handler_(handler), buffer_(std::make_unique<Buffer>()) {}

Result<std::unique_ptr<Session>> Session::mount(base::Loop& loop, vfs::FileSystem& files, const MountOptions& mount,
                                                SessionOptions options, Handler& handler) {
  fuse_set_log_func(nullptr);  // to descriptor 2, which is captured
  const std::string what = "mount on " + mount.mount_point;
  std::shared_ptr<Core> core;
  {
    const StderrCapture said;
    auto made = make_core(loop, files, mount, options);
    if (!made) return make_error(made.error().code, what, said.text());
    core = std::move(*made);
    if (fuse_session_mount(core->session, mount.mount_point.c_str()) != 0)
      return make_error(Errc::invalid, what, said.text());
  }
  fuse_set_log_func(log_of_libfuse);
  std::unique_ptr<Session> session(new Session(std::move(core), handler));
  const int fd = fuse_session_fd(session->core_->session);
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return os_error(errno, what);
  session->kernel_ = std::make_unique<KernelDevice>(fd);
  if (mount.no_symlink_follow)
    if (auto set = forbid_symlinks(mount.mount_point); !set) return std::move(set).error();
  if (auto set = set_device(*session->core_, *session->kernel_, fd); !set) return std::move(set).error();
  session->watch();
  return session;
}

Result<std::unique_ptr<Session>> Session::attach(base::Loop& loop, vfs::FileSystem& files, Device& device,
                                                 SessionOptions options, Handler& handler) {
  MountOptions mount;
  mount.source = "test";
  mount.max_read = options.max_read;
  auto core = make_core(loop, files, mount, options);
  if (!core) return std::move(core).error();
  std::unique_ptr<Session> session(new Session(std::move(*core), handler));
  const int unused = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (auto set = set_device(*session->core_, device, unused); !set) return std::move(set).error();
  return session;
}

Session::~Session() {
  *alive_ = false;
  if (watch_) core_->loop.unwatch(watch_);
  core_->close();
  // Closes the device first, which ends every request that is under way, then unmounts lazily; does nothing when the
  // kernel has closed its side.
  fuse_session_exit(core_->session);
  fuse_session_unmount(core_->session);
}

void Session::watch() {
  watch_ = core_->loop.watch(fuse_session_fd(core_->session), base::Readiness::readable, [this] { turn(); });
}

bool Session::turn() {
  SANDBAR_ON_LOOP(core_->loop);
  const std::shared_ptr<bool> alive = alive_;
  for (int i = 0; i < kRequestsPerTurn && !ended_; ++i) {
    const int size = fuse_session_receive_buf(core_->session, &buffer_->buffer);
    if (size == -EAGAIN || size == -EINTR) return true;
    if (size <= 0) {
      end(size == 0 ? Result<void>() : os_error(-size, "read from /dev/fuse"));
      return false;
    }
    fuse_session_process_buf(core_->session, &buffer_->buffer);
    if (core_->started && !told_ready_) {
      told_ready_ = true;
      handler_.on_ready();
      if (!*alive) return false;
    }
    if (fuse_session_exited(core_->session) != 0) {
      end(make_error(Errc::protocol, "start with the kernel",
                     "it offers a FUSE protocol that this version cannot use"));
      return false;
    }
  }
  return !ended_;
}

void Session::end(Result<void> reason) {
  if (ended_) return;
  ended_ = true;
  if (watch_) core_->loop.unwatch(watch_);
  watch_ = {};
  handler_.on_ended(reason);
}

}  // namespace sandbar::fuse
