/* What the parts of the harness need of each other at the end of a test. */
#ifndef E2E_PRIVATE_H
#define E2E_PRIVATE_H

void clients_end(void);
/* Opens all gates and closes all connections of scripted workers, without waiting. */
void scripted_release(void);
/* Waits for their threads and frees them. */
void scripted_end(void);

#endif
