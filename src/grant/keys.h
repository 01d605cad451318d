// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "sandbar/result.h"

struct evp_pkey_st;

namespace sandbar::grant {

/// Of a key file.
constexpr std::size_t kMaxKeyFile = 64 * 1024;
/// Of one ring: more were a list of the keys of a fleet, of which each can sign for this sandbox.
constexpr std::size_t kMaxKeys = 64;
/// An Ed25519 signature (RFC 8032).
constexpr std::size_t kSignatureSize = 64;
/// Hexadecimal digits of a key's id.
constexpr std::size_t kKeyIdSize = 16;

/// One Ed25519 key of OpenSSL's; shared, never changed. Any thread.
using KeyHandle = std::shared_ptr<evp_pkey_st>;

/// The first 16 hexadecimal digits of SHA-256 of the public key's 32 bytes.
std::string key_id_of(const KeyHandle& key);

/// What signs grants. Its secret is in no message and no log.
class PrivateKey {
 public:
  static PrivateKey generate();
  /// The first PEM block ("BEGIN PRIVATE KEY", PKCS #8) of `pem`, not encrypted. Errc::invalid for anything else.
  static Result<PrivateKey> from_pem(std::string_view pem);
  /// Of a file on which none but its owner has rights (Errc::invalid, with the chmod to run, for another).
  static Result<PrivateKey> read_file(const std::string& path);

  [[nodiscard]] std::string pem() const;
  [[nodiscard]] std::string public_pem() const;
  [[nodiscard]] const std::string& id() const { return id_; }
  /// kSignatureSize bytes.
  [[nodiscard]] base::Bytes sign(base::BytesView message) const;

 private:
  explicit PrivateKey(KeyHandle key);
  KeyHandle key_;
  std::string id_;
};

/// The public keys that an agent trusts.
class KeyRing {
 public:
  /// All PEM blocks ("BEGIN PUBLIC KEY") of `pem`, at least one. Errc::invalid, and nothing is added, where one is not
  /// an Ed25519 public key; a private key among them is said to be one: it does not belong into a sandbox.
  Result<void> add_pem(std::string_view pem);
  /// The error names the file.
  Result<void> add_file(const std::string& path);

  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  [[nodiscard]] bool knows(std::string_view key_id) const;
  /// True where a key of that id made `signature` of `message`.
  [[nodiscard]] bool verify(std::string_view key_id, base::BytesView message, base::BytesView signature) const;

 private:
  struct Entry {
    std::string id;
    KeyHandle key;
  };
  std::vector<Entry> keys_;
};

}  // namespace sandbar::grant
