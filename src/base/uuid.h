/* base/uuid.h - 128-bit identifiers: as bytes, as RFC 4122 text, and as Kafka's URL-safe base64. */
#pragma once
#include "base/span.h"

typedef struct {
        uint8_t bytes[16];
} ls_uuid;

#define LS_UUID_TEXT_BYTES   37 /* 8-4-4-4-12 and NUL */
#define LS_UUID_BASE64_BYTES 23 /* 22 characters without padding, and NUL */

static inline bool
ls_uuid_eq(ls_uuid a, ls_uuid b)
{
        return memcmp(&a, &b, sizeof a) == 0;
}
static inline bool
ls_uuid_is_zero(ls_uuid a)
{
        return ls_uuid_eq(a, (ls_uuid){ { 0 } });
}
/* Stamps version 4 and the variant into 16 random bytes (given by the caller's rng). */
ls_uuid ls_uuid_v4(const uint8_t random[16]);
void ls_uuid_text(ls_uuid u, char ret_text[LS_UUID_TEXT_BYTES]);
void ls_uuid_base64(ls_uuid u, char ret_text[LS_UUID_BASE64_BYTES]);
/* Parses the 36-character form; false when it is not one. */
bool ls_uuid_parse(ls_str text, ls_uuid *ret_uuid);
