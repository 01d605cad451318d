// SPDX-License-Identifier: Apache-2.0
#include "net/tls_errors.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "base/text.h"

namespace sandbar::net {
namespace {

/// Of a certificate's names, in a message: the peer chose how many and how long.
constexpr std::size_t kShownNames = 5;
constexpr std::size_t kShownName = 100;

std::string shown(std::string_view name) {
  return base::printable(name.substr(0, kShownName)) + (name.size() > kShownName ? "..." : "");
}

std::string name_text(const X509_NAME* name) {
  BIO* bio = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  const char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string copy = size > 0 ? shown({text, static_cast<std::size_t>(size)}) : std::string("nobody");
  BIO_free(bio);
  return copy;
}

std::string alternative_name(const GENERAL_NAME* name) {
  int type = 0;
  const void* value = GENERAL_NAME_get0_value(name, &type);
  const auto* text = static_cast<const ASN1_STRING*>(value);
  if (type == GEN_DNS)
    return shown({reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                  static_cast<std::size_t>(ASN1_STRING_length(text))});
  std::array<char, INET6_ADDRSTRLEN> digits{};
  if (type == GEN_IPADD && (ASN1_STRING_length(text) == 4 || ASN1_STRING_length(text) == 16) &&
      ::inet_ntop(ASN1_STRING_length(text) == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(text), digits.data(),
                  digits.size()) != nullptr)
    return digits.data();
  return {};
}

/// For whom a certificate is: its alternative names, else its subject.
std::string names_of(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string list;
  std::size_t count = 0;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const std::string name = alternative_name(sk_GENERAL_NAME_value(names, i));
    if (name.empty()) continue;
    if (++count > kShownNames) {
      list += ", ...";
      break;
    }
    list += (list.empty() ? "" : ", ") + name;
  }
  GENERAL_NAMES_free(names);
  return list.empty() ? name_text(X509_get_subject_name(certificate)) : list;
}

}  // namespace

std::string tls_queue_text() {
  const unsigned long error = ERR_peek_error();
  const char* reason = ERR_reason_error_string(error);
  std::string text = reason != nullptr ? reason : "OpenSSL error " + std::to_string(error);
  ERR_clear_error();
  return text;
}

std::string tls_time_text(const asn1_string_st* time) {
  std::tm parts{};
  std::array<char, 64> text{};
  if (ASN1_TIME_to_tm(time, &parts) != 1 || std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts) == 0)
    return "an unreadable date";
  return text.data();
}

std::string certificate_problem(int error, const X509* certificate, const std::string& host,
                                const std::string& ca_file) {
  const std::string clock = " (or this machine's clock is wrong)";
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate expired" +
             (certificate != nullptr ? " on " + tls_time_text(X509_get0_notAfter(certificate)) : std::string{}) +
             "; renew it there" + clock;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "the server's certificate is not valid before " +
             (certificate != nullptr ? tls_time_text(X509_get0_notBefore(certificate)) : "a later time") + clock;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: {
      const std::string issuer =
          certificate != nullptr ? " (" + name_text(X509_get_issuer_name(certificate)) + ")" : std::string{};
      return ca_file.empty()
                 ? "the server's certificate is from an issuer that this machine does not know" + issuer +
                       "; give the issuer's certificate by --ca-file FILE (-o ca_file=FILE)"
                 : "the server's certificate is not from an issuer in the CA file " + base::printable(ca_file) +
                       issuer + "; give its issuer's certificate, and make sure that the server is the right one";
    }
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the server's certificate is not for " + base::printable(host) +
             (certificate != nullptr ? " but for " + names_of(certificate) : std::string{}) +
             "; use the name that it is for";
    default:
      return std::string("the server's certificate was not accepted: ") + X509_verify_cert_error_string(error);
  }
}

}  // namespace sandbar::net
