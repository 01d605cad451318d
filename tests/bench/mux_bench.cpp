// SPDX-License-Identifier: Apache-2.0
// The mux alone, no files: throughput of a stream each way and of 1 MiB requests, and how long a small request takes,
// alone and behind a bulk transfer. Both ends are processes of their own.
//
//   mux_bench [--listen ADDR] [--megabytes N] [--requests N] [-o json]     both ends here
//             [--tls-cert FILE --tls-key FILE]      by TLS; the certificate is trusted for itself and names the address
//   mux_bench serve ADDR          one end, for two network namespaces
//   mux_bench run HOST:PORT ...   the other
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mux/session.h"
#include "net/asio_loop.h"
#include "net/connect.h"
#include "net/listen.h"
#include "wire/limits.h"

namespace sandbar {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPiece = 256 * 1024;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Keeps a channel full until `left` bytes went out, then ends it.
class Source : public mux::Channel::Handler {
 public:
  Source(std::shared_ptr<mux::Channel> channel, std::uint64_t left) : channel_(std::move(channel)), left_(left) {
    channel_->set_handler(this);
    on_writable();
  }
  void on_data(base::Bytes data) override { channel_->consumed(data.size()); }
  void on_end() override {}
  void on_reset(const Error&) override {}
  void on_writable() override {
    while (left_ > 0 && channel_->budget() > 0) {
      const std::size_t count = std::min<std::uint64_t>({channel_->budget(), left_, kPiece});
      channel_->write(base::Bytes(count, 'x'));
      left_ -= count;
    }
    if (left_ == 0) channel_->end();
  }

 private:
  std::shared_ptr<mux::Channel> channel_;
  std::uint64_t left_;
};

/// Reads a channel to its end.
class Sink : public mux::Channel::Handler {
 public:
  Sink(std::shared_ptr<mux::Channel> channel, std::function<void(std::uint64_t)> ended)
      : channel_(std::move(channel)), ended_(std::move(ended)) {
    channel_->set_handler(this);
  }
  void on_data(base::Bytes data) override {
    bytes_ += data.size();
    channel_->consumed(data.size());
  }
  void on_end() override {
    channel_->end();
    if (ended_) ended_(bytes_);
  }
  void on_reset(const Error&) override {}
  void on_writable() override {}

 private:
  std::shared_ptr<mux::Channel> channel_;
  std::function<void(std::uint64_t)> ended_;
  std::uint64_t bytes_ = 0;
};

/// Heads: "echo"; "read" (1 MiB back); "source:CHANNEL:BYTES"; "sink:CHANNEL", answered at the stream's end.
class Server : public mux::Session::Handler {
 public:
  void on_ready(const wire::Hello&) override {}
  void on_request(mux::Message request, mux::Responder responder) override {
    const std::string& head = request.head;
    if (head == "read") return responder.reply({"ok", std::string(wire::kMaxBody, 'r')});
    if (head.rfind("source:", 0) == 0) {
      char* end = nullptr;
      const wire::ChannelId id(std::strtoull(head.c_str() + 7, &end, 10));
      sources_.push_back(std::make_unique<Source>(session->take_channel(id), std::strtoull(end + 1, nullptr, 10)));
      return responder.reply({"ok", ""});
    }
    if (head.rfind("sink:", 0) == 0) {
      const wire::ChannelId id(std::strtoull(head.c_str() + 5, nullptr, 10));
      auto shared = std::make_shared<mux::Responder>(std::move(responder));
      sinks_.push_back(std::make_unique<Sink>(session->take_channel(id), [shared](std::uint64_t) {
        shared->reply({"ok", ""});
      }));
      return;
    }
    responder.reply({"ok", ""});
  }
  void on_closed(const Error&) override {}
  std::unique_ptr<mux::Session> session;

 private:
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

struct TlsFiles {
  std::string certificate, key;
};

std::unique_ptr<net::Listener> serve(net::AsioLoop& loop, const std::string& address, const TlsFiles& tls,
                                     std::vector<std::unique_ptr<Server>>& servers) {
  net::ListenOptions options;
  options.authorize = [](const net::UpgradeRequest&) { return true; };
  options.accepted = [&loop, &servers](std::unique_ptr<net::Transport> transport, const net::UpgradeRequest&) {
    auto server = std::make_unique<Server>();
    mux::SessionOptions session;
    session.role = mux::Role::agent;
    server->session = std::make_unique<mux::Session>(loop, std::move(transport), std::move(session), *server);
    servers.push_back(std::move(server));
  };
  options.tls_certificate = tls.certificate;
  options.tls_key = tls.key;
  options.insecure = true;  // a bench in network namespaces; there is nothing secret
  auto listener = net::listen(loop, address, std::move(options));
  if (!listener) {
    std::fprintf(stderr, "mux_bench: %s\n", listener.error().message().c_str());
    std::exit(1);
  }
  return std::move(listener).value();
}

struct Plan {
  std::uint64_t megabytes = 512;
  int requests = 5000;
  bool json = false;
  TlsFiles tls;
};

struct Figures {
  double upload = 0, download = 0, writes = 0, reads = 0;  // MB/s
  double alone_median = 0, alone_p99 = 0;                  // ms
  double busy_median = 0, busy_p99 = 0;                    // ms, during a download
};

/// Runs the measurements one after the other on the client's loop.
class Runner : public mux::Session::Handler {
 public:
  Runner(net::AsioLoop& loop, Plan plan) : loop_(loop), plan_(plan), bytes_(plan.megabytes << 20) {}

  void begin(std::unique_ptr<net::Transport> transport) {
    session_ = std::make_unique<mux::Session>(loop_, std::move(transport), mux::SessionOptions{}, *this);
  }
  void on_ready(const wire::Hello&) override { upload(); }
  void on_request(mux::Message, mux::Responder responder) override { responder.reply({"", ""}); }
  void on_closed(const Error& reason) override {
    std::fprintf(stderr, "mux_bench: %s\n", reason.message().c_str());
    std::exit(1);
  }
  Figures figures;

 private:
  void upload() {
    auto channel = session_->open_channel();
    start_ = Clock::now();
    session_->request({"sink:" + std::to_string(channel->id().value), ""}, {}, [this](Result<mux::Message>) {
      figures.upload = static_cast<double>(bytes_) / 1e6 / since(start_);
      download([this](double rate) {
        figures.download = rate;
        many("write", [this](double writes) {
          figures.writes = writes;
          many("read", [this](double reads) {
            figures.reads = reads;
            alone();
          });
        });
      });
    });
    source_ = std::make_unique<Source>(channel, bytes_);
  }

  void download(std::function<void(double)> done) {
    auto channel = session_->open_channel();
    const auto start = Clock::now();
    sink_ = std::make_unique<Sink>(channel, [this, start, done = std::move(done)](std::uint64_t got) {
      const double rate = static_cast<double>(got) / 1e6 / since(start);
      loop_.post([done, rate] { done(rate); });
    });
    session_->request({"source:" + std::to_string(channel->id().value) + ":" + std::to_string(bytes_), ""}, {},
                      [](Result<mux::Message>) {});
  }

  /// 1 MiB requests or replies, 16 on the way.
  void many(const std::string& kind, std::function<void(double)> done) {
    left_ = pending_ = static_cast<std::int64_t>(plan_.megabytes);
    start_ = Clock::now();
    for (int i = 0; i < 16; ++i) one_of_many(kind, done);
  }
  void one_of_many(const std::string& kind, const std::function<void(double)>& done) {
    if (left_ == 0) return;
    --left_;
    mux::Message message{kind, kind == "write" ? std::string(wire::kMaxBody, 'w') : std::string()};
    session_->request(std::move(message), {}, [this, kind, done](Result<mux::Message>) {
      if (--pending_ == 0) return done(static_cast<double>(bytes_) / 1e6 / since(start_));
      one_of_many(kind, done);
    });
  }

  void alone() {
    ping([this](double median, double p99) {
      figures.alone_median = median;
      figures.alone_p99 = p99;
      busy_ = true;
      keep_busy();
      ping([this](double busy_median, double busy_p99) {
        figures.busy_median = busy_median;
        figures.busy_p99 = busy_p99;
        loop_.stop();
      });
    });
  }
  void keep_busy() {
    if (busy_) download([this](double) { keep_busy(); });
  }

  void ping(std::function<void(double, double)> done) {
    samples_.clear();
    ping_done_ = std::move(done);
    ping_once();
  }
  void ping_once() {
    const auto start = Clock::now();
    session_->request({"echo", ""}, {}, [this, start](Result<mux::Message>) {
      samples_.push_back(since(start) * 1e3);
      if (samples_.size() < static_cast<std::size_t>(plan_.requests)) return ping_once();
      std::sort(samples_.begin(), samples_.end());
      const auto done = std::exchange(ping_done_, nullptr);
      done(samples_[samples_.size() / 2], samples_[samples_.size() * 99 / 100]);
    });
  }

  net::AsioLoop& loop_;
  Plan plan_;
  std::uint64_t bytes_;
  std::unique_ptr<mux::Session> session_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Sink> sink_;
  Clock::time_point start_;
  std::int64_t left_ = 0, pending_ = 0;
  bool busy_ = false;
  std::vector<double> samples_;
  std::function<void(double, double)> ping_done_;
};

void print(const Figures& f, bool json) {
  const char* format = json ? "{\"upload_mb_s\":%.1f,\"download_mb_s\":%.1f,\"writes_mb_s\":%.1f,\"reads_mb_s\":%.1f,"
                              "\"alone_median_ms\":%.3f,\"alone_p99_ms\":%.3f,\"busy_median_ms\":%.3f,"
                              "\"busy_p99_ms\":%.3f}\n"
                            : "stream up %.0f MB/s, down %.0f MB/s; 1 MiB requests out %.0f MB/s, in %.0f MB/s\n"
                              "small request alone: median %.3f ms, p99 %.3f ms\n"
                              "during a download:   median %.3f ms, p99 %.3f ms\n";
  std::printf(format, f.upload, f.download, f.writes, f.reads, f.alone_median, f.alone_p99, f.busy_median, f.busy_p99);
}

net::Endpoint endpoint(const std::string& url) {
  net::Endpoint endpoint;
  if (url.rfind("unix:", 0) == 0) {
    endpoint.kind = net::Endpoint::Kind::unix_socket;
    endpoint.socket_path = url.substr(5);
    return endpoint;
  }
  endpoint.tls = url.rfind("wss://", 0) == 0;
  const std::size_t scheme = url.find("://");
  const std::string address = scheme == std::string::npos ? url : url.substr(scheme + 3);
  const std::size_t colon = address.rfind(':');
  endpoint.host = address.substr(0, colon);
  endpoint.port = static_cast<std::uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10));
  return endpoint;
}

int run(const std::string& url, Plan plan) {
  net::AsioLoop loop;
  Runner runner(loop, plan);
  net::ConnectOptions options;
  options.ca_file = plan.tls.certificate;
  options.insecure = true;
  auto pending = net::connect(loop, endpoint(url), options, [&](Result<std::unique_ptr<net::Transport>> transport) {
    if (transport) return runner.begin(std::move(transport).value());
    std::fprintf(stderr, "mux_bench: %s\n", transport.error().message().c_str());
    std::exit(1);
  });
  loop.run();
  print(runner.figures, plan.json);
  return 0;
}

int serve_for_ever(const std::string& address, const TlsFiles& tls, int ready_fd) {
  net::AsioLoop loop;
  std::vector<std::unique_ptr<Server>> servers;
  const auto listener = serve(loop, address, tls, servers);
  const std::string url = listener->url() + "\n";
  if (::write(ready_fd, url.data(), url.size()) < 0) return 1;
  loop.run();
  return 0;
}

int both(const std::string& address, Plan plan) {
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::_Exit(serve_for_ever(address, plan.tls, ends[1]));
  }
  ::close(ends[1]);
  char url[256] = {};
  const ssize_t got = ::read(ends[0], url, sizeof url - 1);
  const int code = got > 0 ? run(std::string(url, static_cast<std::size_t>(got) - 1), plan) : 1;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return code;
}

int bench_main(int argc, char** argv) {
  Plan plan;
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--megabytes" && more) {
      plan.megabytes = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--requests" && more) {
      plan.requests = std::atoi(argv[++i]);
    } else if (word == "--listen" && more) {
      listen = argv[++i];
    } else if (word == "--tls-cert" && more) {
      plan.tls.certificate = argv[++i];
    } else if (word == "--tls-key" && more) {
      plan.tls.key = argv[++i];
    } else if (word == "-o" && more && std::string(argv[i + 1]) == "json") {
      plan.json = true;
      ++i;
    } else {
      words.push_back(word);
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  if (words.size() == 2 && words[0] == "serve") return serve_for_ever(words[1], plan.tls, STDOUT_FILENO);
  if (words.size() == 2 && words[0] == "run") return run(words[1], plan);
  if (words.empty() && plan.megabytes > 0 && plan.requests > 0) return both(listen, plan);
  std::fprintf(stderr,
               "usage: mux_bench [--listen ADDR] [--megabytes N] [--requests N] [--tls-cert FILE --tls-key FILE] "
               "[-o json] [serve ADDR|run URL]\n");
  return 2;
}

}  // namespace
}  // namespace sandbar

int main(int argc, char** argv) { return sandbar::bench_main(argc, argv); }
