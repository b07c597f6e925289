/*
 * The EC connector `ec-shared-storage`: encoders and prefill find encoder output in storage that they share, by its hash; no
 * leg carries anything for it. So does the Go coordinator.
 */
#include <coordinator/plugin.h>

static const coord_connector_type EC_SHARED_STORAGE = {
    .size = sizeof EC_SHARED_STORAGE,
    .kind = COORD_CONNECTOR_EC,
    .name = "ec-shared-storage",
    .help = "Encoders and prefill share storage for encoder output.",
};

COORD_PLUGIN(.name = "ec-shared-storage", .version = "0.1.0", .licence = "Apache-2.0",
             .connectors = (const coord_connector_type *const[]){&EC_SHARED_STORAGE, NULL})
