//! The declarations in src/coordinator.rs against the headers: `layout.c` is compiled with those that are installed and prints what it finds.
#[allow(dead_code)]
#[path = "../src/coordinator.rs"]
mod coordinator;

use coordinator::*;
use std::env;
use std::mem::{size_of, MaybeUninit};
use std::process::Command;

/// Where the member begins. (`offset_of!` came with Rust 1.77.)
macro_rules! offset {
    ($type:ty, $member:ident) => {{
        let it = MaybeUninit::<$type>::uninit();
        let start = it.as_ptr();

        unsafe { std::ptr::addr_of!((*start).$member) as usize - start as usize }
    }};
}

/// Adds the lines for a struct: its size, then its members by their names in C.
macro_rules! layout {
    ($lines:ident, $type:ty, $name:literal, $($member:ident $in_c:literal),+) => {
        $lines.push(format!("{} {}", $name, size_of::<$type>()));
        $($lines.push(format!("{}.{} {}", $name, $in_c, offset!($type, $member)));)+
    };
}

fn ours() -> Vec<String> {
    let mut lines: Vec<String> = [
        ("COORD_OK", i64::from(OK)),
        ("COORD_PARAM_STRING", i64::from(PARAM_STRING)),
        ("COORD_PARAM_INT", i64::from(PARAM_INT)),
        ("COORD_PARAM_STRING_MAP", i64::from(PARAM_STRING_MAP)),
        ("COORD_PARAM_REQUIRED", i64::from(PARAM_REQUIRED)),
        ("COORD_ABI_MAJOR", i64::from(ABI_MAJOR)),
        ("COORD_ABI_MINOR", i64::from(ABI_MINOR)),
        ("COORD_PLUGIN_MAGIC", i64::from(PLUGIN_MAGIC)),
        ("COORD_NOTE_TYPE", i64::from(NOTE_TYPE)),
    ]
    .iter()
    .map(|(name, value)| format!("{} {}", name, value))
    .collect();

    layout!(lines, Slice, "coord_slice", data "data", size "size");
    layout!(lines, Param, "coord_param", size "size", kind "type", name "name", help "help", fallback "fallback",
        inherits "inherits", flags "flags", reserved "reserved", minimum "minimum", maximum "maximum",
        choices "choices", needs "needs");
    layout!(lines, StepType, "coord_step_type", size "size", flags "flags", name "name", help "help", params "params",
        param_count "param_count", param_size "param_size", needs "needs", provides "provides", create "create",
        execute "execute", destroy "destroy", start "start", stop "stop", thread_start "thread_start",
        thread_stop "thread_stop");
    layout!(lines, PluginDescriptor, "coord_plugin_descriptor", size "size", magic "magic", abi_major "abi_major",
        abi_minor "abi_minor", name "name", version "version", licence "licence", steps "steps",
        connectors "connectors");
    layout!(lines, PluginNote, "coord_plugin_note", magic "magic", abi_major "abi_major", abi_minor "abi_minor",
        descriptor_size "descriptor_size");
    layout!(lines, ElfNote, "coord_elf_note", name_size "name_size", descriptor_size "descriptor_size", kind "type",
        name "name", note "note");
    lines
}

/// The compiler's flags that find the headers: COORDINATOR_INCLUDE, or what pkg-config says.
fn header_flags() -> Vec<String> {
    if let Ok(folder) = env::var("COORDINATOR_INCLUDE") {
        return vec![format!("-I{}", folder)];
    }
    let output = Command::new("pkg-config").args(["--cflags-only-I", "coordinator"]).output().expect("pkg-config");

    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect()
}

fn theirs() -> Vec<String> {
    let program = format!("{}/layout", env!("CARGO_TARGET_TMPDIR"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layout.c");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let compiled = Command::new(compiler).args(["-std=c11", "-o", &program, source]).args(header_flags()).status();

    assert!(compiled.expect("the C compiler").success());
    let output = Command::new(&program).output().expect("what it made");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

#[test]
fn our_declarations_are_those_of_the_headers() {
    assert_eq!(ours(), theirs());
}
