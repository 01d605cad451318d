// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "agent/journal.h"
#include "agent/reply_gate.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/bytes.h"
#include "base/loop.h"
#include "mux/session.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// True for what FileService handles.
bool is_file_request(const wire::RequestBody& body);

struct FileServiceContext {
  base::Loop& loop;
  Root& root;
  WorkerPool& pool;
  Journals& journals;
  std::string journal_id;                 ///< of the client's hello; may be empty
  base::Function<std::size_t()> backlog;  ///< bytes of replies that wait in the session
};

class FileCore;

/// The files of one session: answers each request through its responder. On the loop's thread. Destroyed at the
/// session's end, it gives back its open files and locks; requests that run on workers then finish unheard.
class FileService {
 public:
  explicit FileService(FileServiceContext context);
  ~FileService();
  FileService(const FileService&) = delete;
  FileService& operator=(const FileService&) = delete;

  /// is_file_request(request.body) must be true. Cancelling the responder's request gives up one that has not begun.
  void handle(wire::Request request, base::Bytes body, mux::Responder responder);
  /// All locks of the session, and waits for one, which fail. False where there was none.
  bool give_locks_back();
  /// Fewer replies wait in the session than before.
  void on_drained() { gate_->look(); }

 private:
  std::shared_ptr<FileCore> core_;
  std::shared_ptr<ReplyGate> gate_;
};

}  // namespace sandbar::agent
