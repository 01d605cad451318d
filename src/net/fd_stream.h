// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/loop.h"
#include "net/stream.h"

namespace sandbar::net {

/// A Stream over one socket, or over two descriptors (pipes). All must be non-blocking already.
class FdStream : public Stream {
 public:
  FdStream(base::Loop& loop, base::UniqueFd socket, std::string peer);
  FdStream(base::Loop& loop, base::UniqueFd in, base::UniqueFd out, std::string peer);

  ssize_t read(char* into, std::size_t size) override;
  ssize_t write(const iovec* pieces, int count) override;
  void shutdown_write() override;
  [[nodiscard]] int read_fd() const override { return in_.get(); }
  [[nodiscard]] int write_fd() const override { return out_ ? out_.get() : in_.get(); }
  [[nodiscard]] std::string peer() const override { return peer_; }
  void explain_end(base::Function<void(std::string)> explained) override;

 protected:
  void close_both();
  base::Loop& loop_;

 private:
  bool socket_;  ///< one descriptor, and send(2) works on it
  bool write_shut_ = false;
  base::UniqueFd in_;
  base::UniqueFd out_;
  std::string peer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbar::net
