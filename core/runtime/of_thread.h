/*
 * Variables of a thread that are found without a call, even inside a shared library.
 *
 * They lie in the memory that the loader sets aside for a thread: whoever loads the library by dlopen has little of that, so
 * this is for pointers and small structs that every request asks for. No state.
 */
#ifndef RUNTIME_OF_THREAD_H
#define RUNTIME_OF_THREAD_H

#define OF_THREAD _Thread_local __attribute__((tls_model("initial-exec")))

#endif
