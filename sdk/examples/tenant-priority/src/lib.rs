//! The step `tenant-priority`, in Rust: reads who asks from a header and splices that tenant's `priority` into the body, so that
//! workers serve it in its turn, whatever the client wrote there.
//!
//! A step's entry points are C functions. Each gets its pointers into Rust types at once, does its work in safe Rust, and lets no panic
//! cross into the core (`guarded`).
mod coordinator;

use coordinator::*;
use std::collections::HashMap;
use std::ffi::{c_void, CStr, CString};
use std::os::raw::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null;

/// A C string of a literal, for statics.
macro_rules! c {
    ($text:literal) => {
        concat!($text, "\0").as_ptr() as *const c_char
    };
}

struct Priorities {
    header: CString,
    of_tenant: HashMap<Vec<u8>, i64>,
    of_others: i64,
}

/// Runs `body`; what it says is wrong, or panics with, goes to `otherwise`.
fn guarded(body: impl FnOnce() -> Result<Status, String>, otherwise: impl FnOnce(&CStr) -> Status) -> Status {
    let wrong = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => return status,
        Ok(Err(wrong)) => wrong,
        Err(_) => "a panic".to_string(),
    };

    otherwise(&CString::new(wrong.replace('\0', " ")).unwrap_or_default())
}

/// The next entry of the map `tenants`; None: that was the last.
fn tenant_at(config: *const Config, index: usize) -> Result<Option<(Vec<u8>, i64)>, String> {
    let (mut name, mut text) = (Slice::EMPTY, Slice::EMPTY);

    if unsafe { coord_config_entry(config, c!("tenants"), index, &mut name, &mut text) } != OK {
        return Ok(None);
    }
    // The configuration is there until `create` returns, so what is needed later is copied.
    let (name, text) = unsafe { (name.bytes(), text.bytes()) };
    let priority = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());

    match priority {
        Some(priority) => Ok(Some((name.to_vec(), priority))),
        None => Err(format!(
            "tenants: {} has no whole number but {:?}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(text)
        )),
    }
}

fn read_priorities(config: *const Config) -> Result<Priorities, String> {
    let mut header = Slice::EMPTY;
    let mut of_others = 0;
    let mut of_tenant = HashMap::new();

    if unsafe { coord_config_string(config, c!("header"), &mut header) } != OK
        || unsafe { coord_config_int(config, c!("others"), &mut of_others) } != OK
    {
        return Err("the params cannot be read".to_string());
    }
    while let Some((tenant, priority)) = tenant_at(config, of_tenant.len())? {
        of_tenant.insert(tenant, priority);
    }
    let header = CString::new(unsafe { header.bytes() }).map_err(|wrong| wrong.to_string())?;
    Ok(Priorities { header, of_tenant, of_others })
}

impl Priorities {
    fn of(&self, tenant: Option<&[u8]>) -> i64 {
        *tenant.and_then(|tenant| self.of_tenant.get(tenant)).unwrap_or(&self.of_others)
    }
}

unsafe extern "C" fn create(config: *const Config, state: *mut *mut c_void, error: *mut Error) -> Status {
    guarded(
        || {
            *state = Box::into_raw(Box::new(read_priorities(config)?)).cast();
            Ok(OK)
        },
        |wrong| coord_error_set(error, c!("%s"), wrong.as_ptr()),
    )
}

/// All reactors call this at the same time with the same state, so it is only borrowed, and never changed.
unsafe extern "C" fn execute(state: *mut c_void, request: *mut Request) -> Status {
    let priorities = &*(state as *const Priorities);

    guarded(
        || {
            let mut tenant = Slice::EMPTY;
            let named = coord_request_header(request, priorities.header.as_ptr(), &mut tenant) == OK;
            let priority = priorities.of(named.then(|| tenant.bytes()));
            let status = coord_document_set_int(coord_request_body(request), c!("/priority"), priority);

            // A `priority` that stands there twice cannot be set: that is the client's 400. OK: the next step's turn.
            Ok(coord_fail_member(request, status, c!("/priority"), c!("there once at most")))
        },
        |wrong| coord_fail(request, 500, null(), c!("tenant-priority: %s"), wrong.as_ptr()),
    )
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    drop(Box::from_raw(state as *mut Priorities));
}

const fn param(kind: i32, name: *const c_char, help: *const c_char) -> Param {
    Param {
        size: std::mem::size_of::<Param>() as u32,
        kind,
        name,
        help,
        fallback: null(),
        inherits: null(),
        flags: 0,
        reserved: 0,
        minimum: 0,
        maximum: 0,
        choices: null(),
        needs: null(),
    }
}

static PARAMS: Constant<[Param; 3]> = Constant([
    Param {
        flags: PARAM_REQUIRED,
        ..param(PARAM_STRING_MAP, c!("tenants"), c!("The priority of each tenant; workers serve lower ones first."))
    },
    Param {
        fallback: c!("100"),
        minimum: -1_000_000,
        maximum: 1_000_000,
        ..param(PARAM_INT, c!("others"), c!("The priority of everybody else."))
    },
    Param { fallback: c!("x-tenant"), ..param(PARAM_STRING, c!("header"), c!("The header that names the tenant.")) },
]);

static STEP: Constant<StepType> = Constant(StepType {
    size: std::mem::size_of::<StepType>() as u32,
    flags: 0,
    name: c!("tenant-priority"),
    help: c!("Gives a request the priority of its tenant."),
    params: PARAMS.0.as_ptr(),
    param_count: 3,
    param_size: std::mem::size_of::<Param>() as u32,
    needs: null(),
    provides: null(),
    create: Some(create),
    execute: Some(execute),
    destroy: Some(destroy),
    start: None,
    stop: None,
    thread_start: None,
    thread_stop: None,
});

static STEPS: Constant<[*const StepType; 2]> = Constant([&STEP.0, null()]);

// What COORD_PLUGIN(…) writes in C: the descriptor, and the note that is read before any code of this file runs.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static coord_plugin: Constant<PluginDescriptor> = Constant(PluginDescriptor {
    size: std::mem::size_of::<PluginDescriptor>() as u32,
    magic: PLUGIN_MAGIC,
    abi_major: ABI_MAJOR,
    abi_minor: ABI_MINOR,
    name: c!("tenant-priority"),
    version: c!("1.0"),
    licence: c!("Apache-2.0"),
    steps: STEPS.0.as_ptr(),
    connectors: null(),
});

#[used]
#[link_section = ".note.coordinator"]
static NOTE: ElfNote = ElfNote {
    name_size: 12,
    descriptor_size: std::mem::size_of::<PluginNote>() as u32,
    kind: NOTE_TYPE,
    name: *b"coordinator\0",
    note: PluginNote {
        magic: PLUGIN_MAGIC,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        descriptor_size: std::mem::size_of::<PluginDescriptor>() as u32,
    },
};
