/* What a shared object takes from others (pipeline/imports.h), by looking at this very program. */
#include "pipeline/imports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void what_a_file_takes_from_others_is_read_from_it(void **state)
{
    static const struct {
        const char *file, *symbol;
        enum imports found;
    } rows[] = {
        {"/proc/self/exe", "_cmocka_run_group_tests", IMPORTS_SOME},
        {"/proc/self/exe", "nobody_has_this", IMPORTS_NONE},
        {"/proc/self/exe", "main", IMPORTS_NONE}, /* its own */
        {"/proc/self/status", "main", IMPORTS_UNKNOWN},
        {"/nowhere/at/all.so", "main", IMPORTS_UNKNOWN},
        {"", "main", IMPORTS_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (imports_any(rows[i].file, (const char *const[]){"nor_this", rows[i].symbol, NULL}) != rows[i].found)
            fail_msg("%s of %s", rows[i].symbol, rows[i].file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_file_takes_from_others_is_read_from_it)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
