/*
 * The tests of test_scanner.c on the code that goes word by word instead of by SSE2. The scanner is compiled into this program
 * under other names, so that the core's own may be linked beside it.
 */
#define JSON_PORTABLE

#define json_validate portable_json_validate
#define json_validate_within portable_json_validate_within
#define json_utf8_valid portable_json_utf8_valid
#define json_type_at portable_json_type_at
#define json_skip_space portable_json_skip_space
#define json_skip_value portable_json_skip_value
#define json_next_member portable_json_next_member
#define json_member_at portable_json_member_at
#define json_after_member portable_json_after_member
#define json_count_members portable_json_count_members
#define json_key_at_is portable_json_key_at_is
#define json_key_is portable_json_key_is
#define json_unescape portable_json_unescape
#define json_count_ids portable_json_count_ids

#include "json/integers.c"
#include "json/scanner.c"
#include "json/walker.c"

#include "test_scanner.c"
