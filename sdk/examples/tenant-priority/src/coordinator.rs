//! The coordinator's C API, as much of it as this step needs: the same order, the same names but for their prefix.
//! `tests/layout.rs` compares every struct with the headers, member by member.
use std::ffi::c_void;
use std::os::raw::c_char;

pub type Status = i32;
pub const OK: Status = 0; // from `execute`: go on

pub const PARAM_STRING: i32 = 1;
pub const PARAM_INT: i32 = 4;
pub const PARAM_STRING_MAP: i32 = 11;
pub const PARAM_REQUIRED: u32 = 1;

pub const ABI_MAJOR: u32 = 1;
pub const ABI_MINOR: u32 = 0;
pub const PLUGIN_MAGIC: u32 = 0x434f_5244;
pub const NOTE_TYPE: u32 = 1;

/// Bytes that somebody else owns; may be `{NULL, 0}`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    pub data: *const c_char,
    pub size: usize,
}

impl Slice {
    pub const EMPTY: Slice = Slice { data: std::ptr::null(), size: 0 };

    /// # Safety
    /// As long as the API's comment says that the slice is good.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.data.cast(), self.size)
        }
    }
}

// What only pointers are seen of.
pub enum Config {}
pub enum Error {}
pub enum Request {}
pub enum Document {}
pub enum ConnectorType {}

#[repr(C)]
pub struct Param {
    pub size: u32,
    pub kind: i32, // `type` in C
    pub name: *const c_char,
    pub help: *const c_char,
    pub fallback: *const c_char,
    pub inherits: *const c_char,
    pub flags: u32,
    pub reserved: u32,
    pub minimum: i64,
    pub maximum: i64,
    pub choices: *const *const c_char,
    pub needs: *const c_char,
}

#[repr(C)]
pub struct StepType {
    pub size: u32,
    pub flags: u32,
    pub name: *const c_char,
    pub help: *const c_char,
    pub params: *const Param,
    pub param_count: u32,
    pub param_size: u32,
    pub needs: *const *const c_char,
    pub provides: *const *const c_char,
    pub create: Option<unsafe extern "C" fn(*const Config, *mut *mut c_void, *mut Error) -> Status>,
    pub execute: Option<unsafe extern "C" fn(*mut c_void, *mut Request) -> Status>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub start: Option<unsafe extern "C" fn(*mut c_void, *mut Error) -> Status>,
    pub stop: Option<unsafe extern "C" fn(*mut c_void)>,
    pub thread_start: Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut Error) -> Status>,
    pub thread_stop: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
}

#[repr(C)]
pub struct PluginDescriptor {
    pub size: u32,
    pub magic: u32,
    pub abi_major: u32,
    pub abi_minor: u32,
    pub name: *const c_char,
    pub version: *const c_char,
    pub licence: *const c_char,
    pub steps: *const *const StepType,
    pub connectors: *const *const ConnectorType,
}

#[repr(C)]
pub struct PluginNote {
    pub magic: u32,
    pub abi_major: u32,
    pub abi_minor: u32,
    pub descriptor_size: u32,
}

#[repr(C)]
pub struct ElfNote {
    pub name_size: u32,
    pub descriptor_size: u32,
    pub kind: u32, // `type` in C
    pub name: [u8; 12],
    pub note: PluginNote,
}

/// For statics that hold pointers into other statics: nothing ever changes them.
#[repr(transparent)]
pub struct Constant<T>(pub T);
unsafe impl<T> Sync for Constant<T> {}

extern "C" {
    pub fn coord_error_set(error: *mut Error, format: *const c_char, ...) -> Status;

    pub fn coord_config_string(config: *const Config, name: *const c_char, value: *mut Slice) -> Status;
    pub fn coord_config_int(config: *const Config, name: *const c_char, value: *mut i64) -> Status;
    pub fn coord_config_entry(
        config: *const Config,
        name: *const c_char,
        index: usize,
        key: *mut Slice,
        value: *mut Slice,
    ) -> Status;

    pub fn coord_request_header(request: *const Request, name: *const c_char, value: *mut Slice) -> Status;
    pub fn coord_request_body(request: *mut Request) -> *mut Document;
    pub fn coord_document_set_int(document: *mut Document, pointer: *const c_char, value: i64) -> Status;
    pub fn coord_fail(request: *mut Request, status: i32, code: *const c_char, format: *const c_char, ...) -> Status;
    pub fn coord_fail_member(
        request: *mut Request,
        status: Status,
        pointer: *const c_char,
        wanted: *const c_char,
    ) -> Status;
}
