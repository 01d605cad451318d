// SPDX-License-Identifier: Apache-2.0
#include "mount_driver.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>

#include "base/log.h"
#include "base/text.h"
#include "client/connection.h"
#include "mount_point.h"
#include "net/asio_loop.h"
#include "stderr_relay.h"

namespace sandbar::tools {
namespace {

int signal_pipe = -1;

extern "C" void tell_loop(int signal) {
  const int saved = errno;
  const char number = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe, &number, 1);
  errno = saved;
}

extern "C" void ignore_signal(int /*signal*/) {}

/// INT, TERM and HUP as bytes on a pipe. Handlers, not a signal mask: a mask would be inherited by the command of an
/// exec: target. PIPE gets an empty handler for the same reason.
class Signals {
 public:
  Signals() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
    read_ = base::UniqueFd(ends[0]);
    write_ = base::UniqueFd(ends[1]);
    signal_pipe = write_.get();
    struct sigaction action {};
    action.sa_handler = tell_loop;
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      if (!is_to_be_ignored(signal)) ::sigaction(signal, &action, nullptr);
    action.sa_handler = ignore_signal;
    ::sigaction(SIGPIPE, &action, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;  // what comes now finds an ending process
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
    signal_pipe = -1;
  }

  [[nodiscard]] int fd() const { return read_.get(); }
  /// True where one came since the last call.
  [[nodiscard]] bool take() const {
    std::array<char, 64> bytes{};
    return ::read(read_.get(), bytes.data(), bytes.size()) > 0;
  }

 private:
  base::UniqueFd read_;
  base::UniqueFd write_;
};

class Driver final : public fuse::Session::Handler {
 public:
  Driver(DriverOptions options, StartReport report) : options_(std::move(options)), report_(std::move(report)) {
    if (options_.background && options_.target.kind == Target::Kind::command)
      said_ = std::make_unique<StderrRelay>(loop_);
  }

  int run() {
    const base::WatchId signals = loop_.watch(signals_.fd(), base::Readiness::readable, [this] {
      if (signals_.take()) stop(mounted_ ? 0 : 1);
    });
    connect();
    loop_.run();
    loop_.unwatch(signals);
    // The kernel's side first: from here on nobody asks any more, and what is unanswered goes with the file system.
    session_.reset();
    remove_if_left(device_);
    files_.reset();
    connection_.reset();
    pending_.reset();
    return exit_code_;
  }

 private:
  void connect() {
    client::ConnectionOptions how;
    how.grants = options_.grants;
    how.kinds = {client::GrantKind::files};
    how.ca_file = options_.ca_file;
    how.insecure = options_.insecure;
    how.journal = base::hex(base::random_bytes(16));
    how.reconnect = true;
    pending_ = client::open_connection(loop_, options_.target, std::move(how),
                                       [this](Result<std::unique_ptr<client::Connection>> connection) {
                                         if (!connection) return fail(connection.error());
                                         connection_ = std::move(*connection);
                                         open_files();
                                       });
  }

  void open_files() {
    connection_->on_event([](const client::ConnectionEvent& event) {
      if (const std::string notice = client::notice_text(event); !notice.empty()) base::log_warning(notice);
    });
    vfs::FileSystem::open(loop_, connection_->files(), options_.files,
                          [this](Result<std::unique_ptr<vfs::FileSystem>> files) {
                            if (!files) return fail(cannot_open(files.error()));
                            files_ = std::move(*files);
                            mount();
                          });
  }

  [[nodiscard]] Error cannot_open(const Error& error) const {
    return make_error(error.code, "open " + options_.files.directory + " of " + options_.target.address(),
                      error.message());
  }

  void mount() {
    auto session = fuse::Session::mount(loop_, *files_, options_.mount, options_.session, *this);
    if (!session) return fail(session.error());
    session_ = std::move(*session);
  }

  void on_ready() override {
    device_ = mounted_device(options_.mount.mount_point);
    raise_read_ahead(device_);
    mounted_ = true;
    if (said_) said_->let_go();
    // Who waited was killed: nobody knows of this mount.
    if (!report_.ready()) stop(1);
  }

  void on_ended(const Result<void>& reason) override {
    if (!mounted_) return fail(reason ? make_error(Errc::unknown, "mount", "unmounted at once") : reason.error());
    if (!reason) base::log_error(reason.error().message());
    stop(reason ? 0 : 1);
  }

  void fail(const Error& error) {
    if (stopping_) return;
    if (said_) said_->pump();
    report_.failed(error.message());
    stop(1);
  }

  void stop(int code) {
    if (stopping_) return;
    stopping_ = true;
    exit_code_ = code;
    loop_.stop();
  }

  DriverOptions options_;
  StartReport report_;
  net::AsioLoop loop_;
  Signals signals_;
  std::unique_ptr<StderrRelay> said_;
  std::unique_ptr<client::PendingConnection> pending_;
  std::unique_ptr<client::Connection> connection_;
  std::unique_ptr<vfs::FileSystem> files_;
  std::unique_ptr<fuse::Session> session_;
  MountedDevice device_;
  int exit_code_ = 1;
  bool mounted_ = false;
  bool stopping_ = false;
};

}  // namespace

int run_driver(DriverOptions options, StartReport report) {
  Driver driver(std::move(options), std::move(report));
  return driver.run();
}

}  // namespace sandbar::tools
