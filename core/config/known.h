/*
 * Keys and types of the Go coordinator that we know and refuse by name (decision 13), so that the message can say more than "unknown".
 */
#ifndef CONFIG_KNOWN_H
#define CONFIG_KNOWN_H

#include <coordinator/base.h>

/*
 * Why `key` is refused in `where` ("step decode", "a step", "step type", "kv_connector", a section), or NULL when we know nothing of it. Goes
 * on from the key: "is not supported here yet: …". Such a key is an error even with --allow-unknown-keys.
 */
const char *known_refusal(const char *where, coord_slice key);

#endif
