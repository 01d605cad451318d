// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

/// Certificates made when they are wanted, in files of the test's own folder.
namespace sandbar::net::testing {

struct CertificateFiles {
  std::string certificate, key;
};

struct CertificateWish {
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";  ///< as openssl's subjectAltName
  long valid_from = -3600, valid_to = 3600;                 ///< seconds from now
  bool chain = true;                                        ///< with the authority's certificate behind it
};

/// An authority with a certificate of its own, which signs others.
class Authority {
 public:
  Authority(std::string folder, const std::string& name)
      : folder_(std::move(folder)), name_(name), key_(EVP_EC_gen("P-256")) {
    certificate_ = make(key_, name, nullptr, {"", -7200, 7200});
    write_certificates(ca_file(), {certificate_});
  }
  ~Authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  [[nodiscard]] std::string ca_file() const { return folder_ + "/" + name_ + ".pem"; }

  CertificateFiles issue(const std::string& file, const CertificateWish& wish = {}) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = make(key, file, this, wish);
    const CertificateFiles files = paths(file);
    if (wish.chain)
      write_certificates(files.certificate, {certificate, certificate_});
    else
      write_certificates(files.certificate, {certificate});
    write_key(files.key, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return files;
  }
  /// One that vouches for itself.
  CertificateFiles self_signed(const std::string& file) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = make(key, file, nullptr, {});
    const CertificateFiles files = paths(file);
    write_certificates(files.certificate, {certificate});
    write_key(files.key, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return files;
  }
  static void write_key(const std::string& path, EVP_PKEY* key, const char* passphrase = nullptr) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr || PEM_write_PrivateKey(file, key, passphrase != nullptr ? EVP_aes_128_cbc() : nullptr, nullptr,
                                                0, nullptr, const_cast<char*>(passphrase)) != 1)
      std::abort();
    std::fclose(file);
  }
  [[nodiscard]] EVP_PKEY* key() const { return key_; }

 private:
  [[nodiscard]] CertificateFiles paths(const std::string& file) const {
    return {folder_ + "/" + file + ".crt", folder_ + "/" + file + ".key"};
  }
  static void extend(X509* certificate, int which, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str());
    if (extension == nullptr || X509_add_ext(certificate, extension, -1) != 1) std::abort();
    X509_EXTENSION_free(extension);
  }
  static X509* make(EVP_PKEY* key, const std::string& name, Authority* issuer, const CertificateWish& wish) {
    static long serial = 1000;
    X509* certificate = X509_new();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), wish.valid_from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wish.valid_to);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
    X509_set_issuer_name(certificate, issuer != nullptr ? X509_get_subject_name(issuer->certificate_) : subject);
    if (wish.names.empty())
      extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
    else
      extend(certificate, NID_subject_alt_name, wish.names);
    if (X509_sign(certificate, issuer != nullptr ? issuer->key_ : key, EVP_sha256()) == 0) std::abort();
    return certificate;
  }
  static void write_certificates(const std::string& path, std::initializer_list<X509*> certificates) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) std::abort();
    for (X509* each : certificates) PEM_write_X509(file, each);
    std::fclose(file);
  }

  std::string folder_;
  std::string name_;
  EVP_PKEY* key_;
  X509* certificate_;
};

}  // namespace sandbar::net::testing
