/* What the headers say of each struct and constant that src/coordinator.rs has, one a line; see layout.rs. */
#include <coordinator/plugin.h>

#include <stdio.h>

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define MEMBER(type, member) printf(#type "." #member " %zu\n", offsetof(type, member))
#define CONSTANT(name) printf(#name " %lld\n", (long long)(name))

int main(void)
{
    CONSTANT(COORD_OK);
    CONSTANT(COORD_PARAM_STRING);
    CONSTANT(COORD_PARAM_INT);
    CONSTANT(COORD_PARAM_STRING_MAP);
    CONSTANT(COORD_PARAM_REQUIRED);
    CONSTANT(COORD_ABI_MAJOR);
    CONSTANT(COORD_ABI_MINOR);
    CONSTANT(COORD_PLUGIN_MAGIC);
    CONSTANT(COORD_NOTE_TYPE);
    SIZE(coord_slice);
    MEMBER(coord_slice, data);
    MEMBER(coord_slice, size);
    SIZE(coord_param);
    MEMBER(coord_param, size);
    MEMBER(coord_param, type);
    MEMBER(coord_param, name);
    MEMBER(coord_param, help);
    MEMBER(coord_param, fallback);
    MEMBER(coord_param, inherits);
    MEMBER(coord_param, flags);
    MEMBER(coord_param, reserved);
    MEMBER(coord_param, minimum);
    MEMBER(coord_param, maximum);
    MEMBER(coord_param, choices);
    MEMBER(coord_param, needs);
    SIZE(coord_step_type);
    MEMBER(coord_step_type, size);
    MEMBER(coord_step_type, flags);
    MEMBER(coord_step_type, name);
    MEMBER(coord_step_type, help);
    MEMBER(coord_step_type, params);
    MEMBER(coord_step_type, param_count);
    MEMBER(coord_step_type, param_size);
    MEMBER(coord_step_type, needs);
    MEMBER(coord_step_type, provides);
    MEMBER(coord_step_type, create);
    MEMBER(coord_step_type, execute);
    MEMBER(coord_step_type, destroy);
    MEMBER(coord_step_type, start);
    MEMBER(coord_step_type, stop);
    MEMBER(coord_step_type, thread_start);
    MEMBER(coord_step_type, thread_stop);
    SIZE(coord_plugin_descriptor);
    MEMBER(coord_plugin_descriptor, size);
    MEMBER(coord_plugin_descriptor, magic);
    MEMBER(coord_plugin_descriptor, abi_major);
    MEMBER(coord_plugin_descriptor, abi_minor);
    MEMBER(coord_plugin_descriptor, name);
    MEMBER(coord_plugin_descriptor, version);
    MEMBER(coord_plugin_descriptor, licence);
    MEMBER(coord_plugin_descriptor, steps);
    MEMBER(coord_plugin_descriptor, connectors);
    SIZE(coord_plugin_note);
    MEMBER(coord_plugin_note, magic);
    MEMBER(coord_plugin_note, abi_major);
    MEMBER(coord_plugin_note, abi_minor);
    MEMBER(coord_plugin_note, descriptor_size);
    SIZE(coord_elf_note);
    MEMBER(coord_elf_note, name_size);
    MEMBER(coord_elf_note, descriptor_size);
    MEMBER(coord_elf_note, type);
    MEMBER(coord_elf_note, name);
    MEMBER(coord_elf_note, note);
    return 0;
}
