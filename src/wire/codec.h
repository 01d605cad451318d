// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bytes.h"
#include "sandbar/result.h"
#include "wire/messages.h"

/// JSON heads. Decoding answers Errc::protocol, with the field's name, for anything but a well-formed head of the
/// known kind within limits.h: text that is not JSON or not UTF-8, too deep, too long, a wrong type, a number out of
/// range, a missing field, a name given twice, an unknown kind. Fields it does not know are ignored. Thread-safe.
namespace sandbar::wire {

base::Bytes encode_hello(const Hello& hello);
Result<Hello> decode_hello(base::BytesView head);

base::Bytes encode_goodbye(const Goodbye& goodbye);
Result<Goodbye> decode_goodbye(base::BytesView head);

/// {"code":"os","errno":2,"message":"..."}; a message beyond kMaxErrorText is cut, bytes that are not UTF-8 escaped.
base::Bytes encode_error(const Error& error);
/// The peer's error, its text in `detail`. (Two errors of different standing: a Result cannot hold both.)
Result<void> decode_error(base::BytesView head, Error& into);

base::Bytes encode_credit(std::uint64_t bytes);
Result<std::uint64_t> decode_credit(base::BytesView head);

base::Bytes encode_request(const Request& request);
Result<Request> decode_request(base::BytesView head);

base::Bytes encode_reply(const Reply& reply);
Result<Reply> decode_reply(base::BytesView head);

}  // namespace sandbar::wire
