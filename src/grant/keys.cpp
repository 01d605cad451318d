// SPDX-License-Identifier: Apache-2.0
#include "grant/keys.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <utility>

#include "base/assert.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/text.h"

namespace sandbar::grant {
namespace {

constexpr std::size_t kRawKeySize = 32;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

KeyHandle handle(EVP_PKEY* key) { return {key, EVP_PKEY_free}; }

const unsigned char* octets(base::BytesView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

/// OpenSSL would ask on the terminal for the passphrase of an encrypted key.
extern "C" int no_passphrase(char* /*into*/, int /*size*/, int /*writing*/, void* /*own*/) { return -1; }

Bio reader(std::string_view text) {
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  SANDBAR_ASSERT(bio);
  return bio;
}

std::string contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Error wrong_key(const char* why) { return make_error(Errc::invalid, "read the key", why); }

/// One PEM block, with its text from "-----BEGIN" on; `text` is what follows. False where there is none.
bool take_block(std::string_view& text, std::string_view& block) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  constexpr std::string_view kEnd = "-----END ";
  const std::size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos) return false;
  const std::size_t end = text.find(kEnd, begin);
  const std::size_t line = end == std::string_view::npos ? end : text.find('\n', end);
  const std::size_t after = line == std::string_view::npos ? text.size() : line + 1;
  block = text.substr(begin, after - begin);
  text.remove_prefix(after);
  return true;
}

Result<KeyHandle> read_public(std::string_view block) {
  if (block.find("PRIVATE KEY-----") != std::string_view::npos)
    return wrong_key("it is a private key, which only whoever signs grants should have; give its .pub file");
  const KeyHandle key = handle(PEM_read_bio_PUBKEY(reader(block).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519)
    return wrong_key("it is not an Ed25519 public key in PEM");
  return key;
}

Result<std::string> read_key_file(const std::string& path, bool is_secret, const std::string& operation) {
  const auto fd = base::open_to_read(path, is_secret, operation);
  if (!fd) return fd.error();
  auto text = base::read_up_to(fd->get(), kMaxKeyFile, operation);
  if (text && text->size() > kMaxKeyFile)
    return make_error(Errc::invalid, operation, "it is larger than 64 KiB: not a key");
  return text;
}

}  // namespace

std::string key_id_of(const KeyHandle& key) {
  std::array<unsigned char, kRawKeySize> raw{};
  std::size_t size = raw.size();
  SANDBAR_ASSERT(EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &size) == 1 && size == raw.size());
  return base::hex(base::sha256({reinterpret_cast<const char*>(raw.data()), size})).substr(0, kKeyIdSize);
}

// --- PrivateKey ------------------------------------------------------------------------------------------------

PrivateKey::PrivateKey(KeyHandle key) : key_(std::move(key)), id_(key_id_of(key_)) {}

PrivateKey PrivateKey::generate() {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  SANDBAR_ASSERT(key != nullptr);
  return PrivateKey(handle(key));
}

Result<PrivateKey> PrivateKey::from_pem(std::string_view pem) {
  if (pem.size() > kMaxKeyFile) return wrong_key("it is too long for a key");
  KeyHandle key = handle(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (!key && pem.find("ENCRYPTED") != std::string_view::npos)
    return wrong_key("it is encrypted with a passphrase, which is not supported; make one by sandboxd keygen");
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519)
    return wrong_key("it is not an Ed25519 private key in PEM; sandboxd keygen makes one");
  return PrivateKey(std::move(key));
}

Result<PrivateKey> PrivateKey::read_file(const std::string& path) {
  const std::string operation = "read key file " + base::printable(path);
  auto text = read_key_file(path, true, operation);
  if (!text) return std::move(text).error();
  auto key = from_pem(*text);
  OPENSSL_cleanse(text->data(), text->size());
  if (!key) return make_error(Errc::invalid, operation, key.error().detail);
  return key;
}

std::string PrivateKey::pem() const {
  const Bio bio(BIO_new(BIO_s_secmem()), BIO_free);
  SANDBAR_ASSERT(bio &&
                 PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return contents(bio.get());
}

std::string PrivateKey::public_pem() const {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  SANDBAR_ASSERT(bio && PEM_write_bio_PUBKEY(bio.get(), key_.get()) == 1);
  return contents(bio.get());
}

base::Bytes PrivateKey::sign(base::BytesView message) const {
  const DigestContext context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  base::Bytes signature(kSignatureSize, '\0');
  std::size_t size = signature.size();
  SANDBAR_ASSERT(context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1);
  SANDBAR_ASSERT(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                octets(message), message.size()) == 1 &&
                 size == kSignatureSize);
  return signature;
}

// --- KeyRing ---------------------------------------------------------------------------------------------------

Result<void> KeyRing::add_pem(std::string_view pem) {
  std::vector<Entry> added;
  std::string_view block;
  while (take_block(pem, block)) {
    if (keys_.size() + added.size() == kMaxKeys) return wrong_key("there are more than 64 keys");
    auto key = read_public(block);
    if (!key) return std::move(key).error();
    std::string id = key_id_of(*key);
    added.push_back({std::move(id), std::move(*key)});
  }
  if (added.empty()) return wrong_key("there is no PEM block in it (-----BEGIN PUBLIC KEY-----)");
  for (Entry& entry : added) keys_.push_back(std::move(entry));
  return {};
}

Result<void> KeyRing::add_file(const std::string& path) {
  const std::string operation = "read key file " + base::printable(path);
  auto text = read_key_file(path, false, operation);
  if (!text) return std::move(text).error();
  if (auto added = add_pem(*text); !added) return make_error(Errc::invalid, operation, added.error().detail);
  return {};
}

bool KeyRing::knows(std::string_view key_id) const {
  for (const Entry& entry : keys_)
    if (entry.id == key_id) return true;
  return false;
}

bool KeyRing::verify(std::string_view key_id, base::BytesView message, base::BytesView signature) const {
  for (const Entry& entry : keys_) {
    if (entry.id != key_id) continue;
    const DigestContext context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    SANDBAR_ASSERT(context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, entry.key.get()) == 1);
    const bool right =
        EVP_DigestVerify(context.get(), octets(signature), signature.size(), octets(message), message.size()) == 1;
    ERR_clear_error();
    if (right) return true;
  }
  return false;
}

}  // namespace sandbar::grant
