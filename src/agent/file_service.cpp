// SPDX-License-Identifier: Apache-2.0
#include "agent/file_service.h"

#include <type_traits>
#include <utility>

#include "agent/access.h"
#include "agent/file_core.h"
#include "wire/codec.h"

namespace sandbar::agent {

bool is_file_request(const wire::RequestBody& body) { return requirement_of(body).need == Need::files; }

FileService::FileService(FileServiceContext context)
    : core_(std::make_shared<FileCore>(context.loop, context.root, context.pool, context.journals,
                                       std::move(context.journal_id))),
      gate_(std::make_shared<ReplyGate>(std::move(context.backlog))) {}

FileService::~FileService() = default;

bool FileService::give_locks_back() { return core_->give_locks_back(); }

void FileService::handle(wire::Request request, base::Bytes body, mux::Responder responder) {
  const std::size_t room = reply_room(request.body);
  gate_->pass(room, [core = core_, gate = std::weak_ptr(gate_), room, request = std::move(request),
                     body = std::move(body), responder = std::move(responder)]() mutable {
    // The responder goes into the completion, and must learn whom to cancel before: the call's id comes after.
    auto call = std::make_shared<FileCallId>();
    responder.on_cancel([weak = std::weak_ptr(core), call] {
      if (const auto known = weak.lock()) known->cancel(*call);
    });
    *call = core->submit(std::move(request), std::move(body),
                         [gate, room, responder = std::move(responder)](Result<FileAnswer> answer) mutable {
                           if (answer)
                             responder.reply({wire::encode_reply(answer->reply), std::move(answer->body)});
                           else
                             responder.fail(answer.error());
                           if (const auto known = gate.lock()) known->answered(room);
                         });
  });
}

}  // namespace sandbar::agent
