// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/assert.h"

namespace sandbar::base {

std::string sha256(std::string_view bytes) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  SANDBAR_ASSERT(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                            EVP_sha256(), nullptr) == 1);
  digest.resize(size);
  return digest;
}

}  // namespace sandbar::base
