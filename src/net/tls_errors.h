// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/types.h>

#include <string>

/// OpenSSL's failures as sentences for people; internal to net.
namespace sandbar::net {

/// What OpenSSL's queue of this thread says first, in its words; the queue is empty afterwards.
std::string tls_queue_text();

/// "2026-11-30 19:51 UTC".
std::string tls_time_text(const asn1_string_st* time);

/// Why the server's certificate was not accepted, and what to do. `error` is an X509_V_ERR_, `certificate` the one
/// that it is about (may be null), `host` whom we meant, `ca_file` where the trust comes from (empty: the system).
std::string certificate_problem(int error, const X509* certificate, const std::string& host,
                                const std::string& ca_file);

}  // namespace sandbar::net
