// SPDX-License-Identifier: Apache-2.0
#include "agent/file_service.h"

#include <type_traits>
#include <utility>

#include "agent/file_core.h"
#include "wire/codec.h"

namespace sandbar::agent {

bool is_file_request(const wire::RequestBody& body) {
  return !std::holds_alternative<wire::Spawn>(body) && !std::holds_alternative<wire::WaitProcess>(body) &&
         !std::holds_alternative<wire::SignalProcess>(body);
}

FileService::FileService(FileServiceContext context)
    : core_(std::make_shared<FileCore>(context.loop, context.root, context.pool, context.journals,
                                       std::move(context.journal_id))) {}

FileService::~FileService() = default;

void FileService::handle(wire::Request request, base::Bytes body, mux::Responder responder) {
  // The responder goes into the completion, and must learn whom to cancel before: the call's id comes after.
  auto call = std::make_shared<FileCallId>();
  responder.on_cancel([weak = std::weak_ptr(core_), call] {
    if (const auto core = weak.lock()) core->cancel(*call);
  });
  *call = core_->submit(std::move(request), std::move(body),
                        [responder = std::move(responder)](Result<FileAnswer> answer) mutable {
                          if (!answer) return responder.fail(answer.error());
                          responder.reply({wire::encode_reply(answer->reply), std::move(answer->body)});
                        });
}

}  // namespace sandbar::agent
