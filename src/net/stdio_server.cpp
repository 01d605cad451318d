// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cerrno>

#include "net/fd_stream.h"
#include "net/listen.h"
#include "net/server_upgrade.h"
#include "net/socket.h"

namespace sandbar::net {
namespace {

class Server : public std::enable_shared_from_this<Server> {
 public:
  Server(base::Loop& loop, ListenOptions options, base::Function<void(Error)> failed)
      : loop_(loop), options_(std::move(options)), failed_(std::move(failed)) {}

  void start(base::UniqueFd in, base::UniqueFd out) {
    for (const int fd : {in.get(), out.get()})
      if (auto usable = check(fd); !usable) return fail_later(std::move(usable.error()));
    auto stream = std::make_unique<FdStream>(loop_, std::move(in), std::move(out), "stdio");
    const auto weak = weak_from_this();
    ServerUpgrade::Options upgrade{options_.subprotocol, options_.upgrade_timeout,
                                   [weak](const UpgradeRequest& request) {
                                     const auto self = weak.lock();
                                     if (!self) return false;
                                     self->request_ = request;
                                     return !self->options_.authorize || self->options_.authorize(request);
                                   }};
    upgrade_ =
        upgrade_server(loop_, std::move(stream), std::move(upgrade), [weak](Result<std::unique_ptr<Transport>> result) {
          if (const auto self = weak.lock()) self->upgraded(std::move(result));
        });
  }

 private:
  static Result<void> check(int fd) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return os_error(errno, "serve on stdin and stdout");
    // epoll(7) takes neither, and no agent's client can be at the other end.
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
      return make_error(Errc::invalid, "serve on stdin and stdout",
                        "descriptor " + std::to_string(fd) +
                            " is a file; the client's end of two pipes or of a socket must be there");
    return set_non_blocking(fd);
  }
  void fail_later(Error error) {
    loop_.post([weak = weak_from_this(), error = std::move(error)]() mutable {
      if (const auto self = weak.lock()) self->upgraded(std::move(error));
    });
  }
  void upgraded(Result<std::unique_ptr<Transport>> result) {
    upgrade_.reset();
    if (result)
      options_.accepted(std::move(*result), request_);
    else
      failed_(std::move(result.error()));
  }

  base::Loop& loop_;
  ListenOptions options_;
  base::Function<void(Error)> failed_;
  UpgradeRequest request_;
  std::unique_ptr<ServerUpgrade> upgrade_;
};

class Handle final : public StdioServer {
 public:
  explicit Handle(std::shared_ptr<Server> server) : server_(std::move(server)) {}

 private:
  std::shared_ptr<Server> server_;
};

}  // namespace

std::unique_ptr<StdioServer> serve_stdio(base::Loop& loop, base::UniqueFd in, base::UniqueFd out, ListenOptions options,
                                         base::Function<void(Error)> failed) {
  auto server = std::make_shared<Server>(loop, std::move(options), std::move(failed));
  server->start(std::move(in), std::move(out));
  return std::make_unique<Handle>(std::move(server));
}

}  // namespace sandbar::net
