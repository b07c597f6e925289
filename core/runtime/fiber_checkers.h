/*
 * What AddressSanitizer, ThreadSanitizer and valgrind must be told about fibers, so that each sees every stack as what it is.
 * Nothing at all in a build without them (valgrind's part is a few instructions when a stack is mapped).
 */
#ifndef RUNTIME_FIBER_CHECKERS_H
#define RUNTIME_FIBER_CHECKERS_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#ifndef FIBER_ASAN
#define FIBER_ASAN 0
#endif
#ifndef FIBER_TSAN
#define FIBER_TSAN 0
#endif

#if FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif

/* The switch is about to go to the stack [bottom, bottom + size). `keep` is where this stack's state is left, NULL if it ends. */
static inline void checker_leave(void **keep, const void *bottom, size_t size, void *thread)
{
#if FIBER_ASAN
    __sanitizer_start_switch_fiber(keep, bottom, size);
#else
    (void)keep, (void)bottom, (void)size;
#endif
#if FIBER_TSAN
    __tsan_switch_to_fiber(thread, 0);
#else
    (void)thread;
#endif
}

/* The switch has come back (or first come) here. Says which stack it came from, unless NULL. */
static inline void checker_arrive(void *kept, const void **bottom, size_t *size)
{
#if FIBER_ASAN
    __sanitizer_finish_switch_fiber(kept, bottom, size);
#else
    (void)kept, (void)bottom, (void)size;
#endif
}

/* ThreadSanitizer's name for the running thread or fiber, and for a new fiber. */
static inline void *checker_self(void)
{
#if FIBER_TSAN
    return __tsan_get_current_fiber();
#else
    return NULL;
#endif
}

static inline void *checker_fiber_new(void)
{
#if FIBER_TSAN
    return __tsan_create_fiber(0);
#else
    return NULL;
#endif
}

static inline void checker_fiber_free(void *thread)
{
#if FIBER_TSAN
    __tsan_destroy_fiber(thread);
#else
    (void)thread;
#endif
}

static inline unsigned checker_stack_mapped(const void *bottom, size_t size)
{
#ifdef VALGRIND_STACK_REGISTER
    return VALGRIND_STACK_REGISTER(bottom, (const char *)bottom + size);
#else
    (void)bottom, (void)size;
    return 0;
#endif
}

static inline void checker_stack_unmapped(unsigned id)
{
#ifdef VALGRIND_STACK_DEREGISTER
    VALGRIND_STACK_DEREGISTER(id);
#else
    (void)id;
#endif
}

/* The room above a stack is nobody's until it is given to somebody. */
static inline void checker_room_taken(const void *room, size_t size)
{
#if FIBER_ASAN
    __asan_poison_memory_region(room, size);
#else
    (void)room, (void)size;
#endif
}

static inline void checker_room_given(const void *room, size_t size)
{
#if FIBER_ASAN
    __asan_unpoison_memory_region(room, size);
#else
    (void)room, (void)size;
#endif
}

/* Frames of the last user that never returned are no longer out of bounds. */
static inline void checker_stack_recycled(const void *bottom, size_t size)
{
#if FIBER_ASAN
    __asan_unpoison_memory_region(bottom, size);
#else
    (void)bottom, (void)size;
#endif
}

#endif
