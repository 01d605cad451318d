// SPDX-License-Identifier: Apache-2.0
#include "net/ws_codec.h"

#include <algorithm>
#include <utility>

#include "net/ws_config.h"

namespace sandbar::net {
namespace {

namespace frame = websocketpp::frame;
namespace opcode = websocketpp::frame::opcode;

constexpr std::size_t kMaxCloseReason = 123;  // RFC 6455 section 5.5: 125 bytes less the code
constexpr std::uint16_t kUnsupportedData = 1003;
constexpr std::uint16_t kTooBig = 1009;
constexpr const char* kTextRefused = "the peer sent a text message; only binary ones are understood";

/// XORs with the key that `prepared` repeats (websocketpp's prepare_masking_key). By words: byte by byte, as the
/// library does it, is the most expensive step of a connection (1.5 GB/s).
void apply_mask(char* data, std::size_t size, std::size_t prepared) {
  std::size_t i = 0;
  for (; i + sizeof prepared <= size; i += sizeof prepared) {
    std::size_t word = 0;
    std::memcpy(&word, data + i, sizeof word);
    word ^= prepared;
    std::memcpy(data + i, &word, sizeof word);
  }
  char key[sizeof prepared];
  std::memcpy(key, &prepared, sizeof key);
  for (std::size_t k = 0; i < size; ++i, ++k) data[i] = static_cast<char>(data[i] ^ key[k]);
}

std::string_view cut_utf8(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

/// The library's frame parser, fed so that payloads bypass its slow paths and all lengths are checked first: 0.8.2 adds
/// the size of a continuation frame to what it has without looking for overflow, and would then take bytes without end.
class Processor final : public WsProcessor {
 public:
  using WsProcessor::WsProcessor;

  enum class Refusal { none, too_big, text };

  std::size_t take(char* data, std::size_t size, websocketpp::lib::error_code& failed, Refusal& refused) {
    if (m_state == HEADER_BASIC || m_state == HEADER_EXTENDED) {
      const std::size_t header = std::min(size, m_bytes_needed);
      const std::size_t used = consume(reinterpret_cast<std::uint8_t*>(data), header, failed);
      if (!failed && m_state == APPLICATION) refused = check_frame();
      return used;
    }
    const std::size_t used = std::min(size, m_bytes_needed);
    if (frame::get_masked(m_basic_header)) {
      apply_mask(data, used, m_current_msg->prepared_key);
      m_current_msg->prepared_key = frame::circshift_prepared_key(m_current_msg->prepared_key, used % 4);
    }
    m_current_msg->msg_ptr->get_raw_payload().append(data, used);
    m_bytes_needed -= used;
    if (m_bytes_needed == 0) consume(nullptr, 0, failed);  // ends the frame
    return used;
  }

 private:
  Refusal check_frame() const {
    if (opcode::is_control(frame::get_opcode(m_basic_header))) return Refusal::none;
    if (m_data_msg.msg_ptr->get_opcode() != opcode::binary) return Refusal::text;
    const std::size_t have = m_data_msg.msg_ptr->get_raw_payload().size();
    return m_bytes_needed > m_max_message_size - have ? Refusal::too_big : Refusal::none;
  }
};

}  // namespace

struct WsCodec::Core {
  Core(WsRole as, std::size_t most)
      : role(as),
        max_message(most),
        manager(std::make_shared<WsConfig::con_msg_manager_type>()),
        processor(false, as == WsRole::server, manager, random) {
    processor.set_max_message_size(most);
  }

  const WsRole role;
  const std::size_t max_message;
  WsRandom random;
  WsConfig::con_msg_manager_type::ptr manager;
  Processor processor;
  State state = State::open;
  base::Bytes answer;
  Error failure;
  std::uint16_t close_code = 1000;
  std::string close_reason;

  void broken(std::uint16_t code, std::string why) {
    state = State::broken;
    close_code = code;
    failure = make_error(Errc::protocol, "WebSocket", std::move(why));
  }
  void failed(const websocketpp::lib::error_code& error) {
    namespace processor_error = websocketpp::processor::error;
    if (error == processor_error::message_too_big) return too_big();
    broken(processor_error::to_ws(error), "the peer sent a bad frame: " + error.message());
  }
  void too_big() { broken(kTooBig, "the peer sent a message of more than " + std::to_string(max_message) + " bytes"); }

  void take_message(std::vector<base::Bytes>& messages);
  void take_close(const std::string& payload);
  base::Bytes control(const WsConfig::message_type::ptr& message) const {
    return message->get_header() + message->get_payload();
  }
};

void WsCodec::Core::take_message(std::vector<base::Bytes>& messages) {
  const auto message = processor.get_message();
  switch (message->get_opcode()) {
    case opcode::binary:
      messages.push_back(std::move(message->get_raw_payload()));
      break;
    case opcode::ping: {
      // RFC 6455 section 5.5.3: the most recent ping is enough. So a flood of them cannot make us store pongs.
      const auto pong = manager->get_message();
      if (!processor.prepare_pong(message->get_payload(), pong)) answer = control(pong);
      break;
    }
    case opcode::close:
      take_close(message->get_payload());
      break;
    case opcode::pong:
      break;
    default:  // an empty text message, which has no payload to be refused at
      broken(kUnsupportedData, kTextRefused);
  }
}

void WsCodec::Core::take_close(const std::string& payload) {
  websocketpp::lib::error_code failed;
  const std::uint16_t code = websocketpp::close::extract_code(payload, failed);
  if (failed) return broken(1002, "the peer sent a close frame with a bad code");
  close_reason = websocketpp::close::extract_reason(payload, failed);
  if (failed) return broken(1002, "the peer sent a close frame whose reason is not UTF-8");
  state = State::closed;
  close_code = code == websocketpp::close::status::no_status ? 1000 : code;
}

WsCodec::WsCodec(WsRole role, std::size_t max_message) : core_(std::make_unique<Core>(role, max_message)) {}
WsCodec::~WsCodec() = default;

WsCodec::State WsCodec::receive(char* data, std::size_t size, std::vector<base::Bytes>& messages) {
  Core& core = *core_;
  for (std::size_t at = 0; at < size && core.state == State::open;) {
    websocketpp::lib::error_code failed;
    Processor::Refusal refused = Processor::Refusal::none;
    at += core.processor.take(data + at, size - at, failed, refused);
    if (failed)
      core.failed(failed);
    else if (refused == Processor::Refusal::text)
      core.broken(kUnsupportedData, kTextRefused);
    else if (refused == Processor::Refusal::too_big)
      core.too_big();
    else if (core.processor.ready())
      core.take_message(messages);
  }
  return core.state;
}

WsCodec::State WsCodec::state() const { return core_->state; }
base::Bytes WsCodec::take_answer() { return std::exchange(core_->answer, {}); }

base::Bytes WsCodec::frame(base::Bytes& payload) {
  if (core_->role == WsRole::server)
    return frame::prepare_header(frame::basic_header(opcode::binary, payload.size(), true, false),
                                 frame::extended_header(payload.size()));
  frame::masking_key_type key;
  key.i = core_->random();
  apply_mask(payload.data(), payload.size(), frame::prepare_masking_key(key));
  return frame::prepare_header(frame::basic_header(opcode::binary, payload.size(), true, true),
                               frame::extended_header(payload.size(), key.i));
}

base::Bytes WsCodec::close_frame(std::uint16_t code, std::string_view reason) {
  const auto message = core_->manager->get_message();
  const std::string text(base::is_utf8(reason) ? cut_utf8(reason, kMaxCloseReason) : std::string_view{});
  if (core_->processor.prepare_close(code, text, message)) {
    // A code that may not be sent, such as one of the peer's own invention.
    if (core_->processor.prepare_close(1000, text, message)) return {};
  }
  return core_->control(message);
}

const Error& WsCodec::failure() const { return core_->failure; }
std::uint16_t WsCodec::close_code() const { return core_->close_code; }
const std::string& WsCodec::close_reason() const { return core_->close_reason; }

}  // namespace sandbar::net
