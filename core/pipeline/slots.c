/* Slots: what steps hang on a request (<coordinator/request.h>). */
#include "pipeline/request.h"

#include "runtime/running.h"

#include <stdatomic.h>

static void (*_Atomic slot_told)(void *context, const coord_slot_type *type, void *value, bool set);
static void *_Atomic slot_context;

void request_watch_slots(void (*told)(void *context, const coord_slot_type *type, void *value, bool set), void *context)
{
    atomic_store(&slot_context, context);
    atomic_store(&slot_told, told);
}

static void tell(const coord_slot_type *type, void *value, bool set)
{
    void (*told)(void *context, const coord_slot_type *type, void *value, bool set) =
        atomic_load_explicit(&slot_told, memory_order_acquire);

    if (told)
        told(atomic_load_explicit(&slot_context, memory_order_relaxed), type, value, set);
}

void *coord_request_slot(const coord_request *request, const coord_slot_type *type)
{
    for (const struct slot *slot = request->slots; slot; slot = slot->next)
        if (slot->type == type)
            return slot->value;
    return NULL;
}

coord_status coord_request_set_slot(coord_request *request, const coord_slot_type *type, void *value_take)
{
    struct slot *slot = request->slots;

    while (slot && slot->type != type)
        slot = slot->next;
    if (slot) {
        if (slot->value != value_take)
            tell(type, slot->value, false);
        if (type->destroy && slot->value != value_take)
            type->destroy(slot->value);
        slot->value = value_take;
        tell(type, value_take, true);
        return COORD_OK;
    }
    slot = arena_alloc(&request->arena, sizeof *slot);
    if (!slot)
        return COORD_NO_MEMORY;
    *slot = (struct slot){request->slots, type, value_take, running_now().owner};
    request->slots = slot;
    tell(type, value_take, true);
    return COORD_OK;
}

void request_release_slots(struct coord_request *request)
{
    while (request->slots) {
        struct slot *slot = request->slots;
        struct guest guest = running_enter((struct running){slot->owner, request->id.data});

        request->slots = slot->next;
        tell(slot->type, slot->value, false);
        if (slot->type->destroy)
            slot->type->destroy(slot->value);
        running_leave(guest);
    }
}
