// SPDX-License-Identifier: Apache-2.0
//! Attention over contiguous f32: o = softmax(q k^T / sqrt(d)) v.
//!
//!   q, o  [B, H, Tq, d]
//!   k, v  [B, H, Tk, d]
//!
//! A shared library without a crate:
//!   rustc --crate-type cdylib --edition 2021 -O FILE.rs

use std::ffi::c_void;
use std::os::raw::c_char;

struct Shape {
    b: usize,
    h: usize,
    tq: usize,
    tk: usize,
    d: usize,
}

/// causal: row i sees the keys j <= i + Tk - Tq.
fn attention(q: &[f32], k: &[f32], v: &[f32], o: &mut [f32], s: &Shape, causal: bool) {
    let scale = 1.0 / (s.d as f32).sqrt();
    let mut p = vec![0f32; s.tk]; // one row of scores, then of weights
    for head in 0..s.b * s.h {
        let keys = &k[head * s.tk * s.d..]; // [Tk, d]
        let values = &v[head * s.tk * s.d..]; // [Tk, d]
        for i in 0..s.tq {
            let row = &q[(head * s.tq + i) * s.d..]; // [d]
            let out = &mut o[(head * s.tq + i) * s.d..]; // [d]
            let seen = if causal { (i + s.tk + 1).saturating_sub(s.tq) } else { s.tk };
            // ---- Yours from here: replace this loop by your own kernel.
            let mut max = f32::NEG_INFINITY;
            for j in 0..seen {
                let mut dot = 0.0;
                for c in 0..s.d {
                    dot += row[c] * keys[j * s.d + c];
                }
                p[j] = dot * scale;
                max = max.max(p[j]);
            }
            let mut sum = 0.0;
            for w in &mut p[..seen] {
                *w = (*w - max).exp();
                sum += *w;
            }
            for c in 0..s.d {
                out[c] = 0.0;
                for j in 0..seen {
                    out[c] += p[j] / sum * values[j * s.d + c];
                }
            }
            // ---- to here.
        }
    }
}

// ---- The plug-in ABI (qkvet/kernel.h), as far as this kernel needs it -------

const OK: i32 = 0;
const UNSUPPORTED: i32 = 1;
const INVALID_ARGUMENT: i32 = 3;

#[repr(C)]
struct Text {
    struct_size: usize,
    data: *mut c_char,
    capacity: usize,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct Dtype {
    code: u8,
    bits: u8,
    lanes: u16,
}
const F32: Dtype = Dtype { code: 2, bits: 32, lanes: 1 };

#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: Dtype,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The beginning of qkvet_forward_args. What follows is zero in a call that does
/// not have it, and is refused where it is not.
#[repr(C)]
struct ForwardArgs {
    struct_size: usize,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    weights: Tensor,
    scale: f32,
    scale_given: i32,
    causal: i32,
    has_window: i32,
    window: [i64; 2],
}

/// Zeros stand for what is not declared: f32, contiguous, on the CPU.
#[repr(C)]
struct Capabilities {
    struct_size: usize,
    options: u64,
    undeclared: [u64; 60],
}
const CAUSAL_TOP_LEFT: u64 = 1 << 0;
const CAUSAL_BOTTOM_RIGHT: u64 = 1 << 1;
const DEFAULT_SCALE: u64 = 1 << 3;
const CROSS_LENGTHS: u64 = 1 << 8;

type Supports = extern "C" fn(*const Kernel, *const ForwardArgs, *mut Text) -> i32;
type Forward =
    extern "C" fn(*const Kernel, *mut c_void, *const ForwardArgs, *const c_void, *mut Text) -> i32;

#[repr(C)]
struct Kernel {
    struct_size: usize,
    name: *const c_char,
    description: *const c_char,
    source_file: *const c_char,
    source_line: i32,
    capabilities: *const Capabilities,
    dialect: *const c_void,
    precision: *const c_void,
    user: *mut c_void,
    open: *const c_void,
    close: *const c_void,
    supports: Supports,
    workspace: *const c_void,
    forward: Forward,
}
unsafe impl Sync for Kernel {}

#[repr(C)]
struct Library {
    struct_size: usize,
    abi_major: u32,
    abi_minor: u32,
    name: *const c_char,
    kernel_count: i32,
    kernels: *const KernelList,
    close: *const c_void,
}
#[repr(transparent)]
struct KernelList([*const Kernel; 1]);
unsafe impl Sync for KernelList {}

/// The beginning of qkvet_host.
#[repr(C)]
struct Host {
    struct_size: usize,
    abi_major: u32,
}

static CAPABILITIES: Capabilities = Capabilities {
    struct_size: std::mem::size_of::<Capabilities>(),
    options: CAUSAL_TOP_LEFT | CAUSAL_BOTTOM_RIGHT | DEFAULT_SCALE | CROSS_LENGTHS,
    undeclared: [0; 60],
};
static KERNEL: Kernel = Kernel {
    struct_size: std::mem::size_of::<Kernel>(),
    name: concat!("mine/attention", "\0").as_ptr().cast(),
    description: concat!("contiguous f32 in Rust", "\0").as_ptr().cast(),
    source_file: concat!(file!(), "\0").as_ptr().cast(),
    source_line: line!() as i32,
    capabilities: &CAPABILITIES,
    dialect: std::ptr::null(),
    precision: std::ptr::null(),
    user: std::ptr::null_mut(),
    open: std::ptr::null(),
    close: std::ptr::null(),
    supports,
    workspace: std::ptr::null(),
    forward,
};
static KERNELS: KernelList = KernelList([&KERNEL]);

fn no(why: *mut Text, status: i32, reason: &str) -> i32 {
    unsafe {
        if let Some(why) = why.as_mut() {
            if !why.data.is_null() && why.capacity > 0 {
                let length = reason.len().min(why.capacity - 1);
                std::ptr::copy_nonoverlapping(reason.as_ptr().cast(), why.data, length);
                *why.data.add(length) = 0;
            }
        }
    }
    status
}

/// The four extents of a contiguous f32 tensor on the CPU without empty ones.
unsafe fn extents(t: &Tensor) -> Option<[i64; 4]> {
    if t.data.is_null() || t.ndim != 4 || t.device_type != 1 || t.dtype != F32 {
        return None;
    }
    let shape = *t.shape.cast::<[i64; 4]>();
    let strides = *t.strides.cast::<[i64; 4]>();
    let mut step = 1;
    for axis in (0..4).rev() {
        // The stride of an extent of 1 may be any number.
        if shape[axis] < 1 || (shape[axis] > 1 && strides[axis] != step) {
            return None;
        }
        step *= shape[axis];
    }
    Some(shape)
}

/// What this kernel takes, or why it does not. Ignoring a field that is set
/// would be a wrong answer.
unsafe fn read(args: *const ForwardArgs) -> Result<Shape, &'static str> {
    let a = &*args;
    let known = std::mem::size_of::<ForwardArgs>();
    let beyond = a.struct_size.saturating_sub(known);
    let more = std::slice::from_raw_parts(args.cast::<u8>().add(known), beyond);
    let absent = |t: &Tensor| t.ndim == 0 && t.data.is_null();
    if more.iter().any(|byte| *byte != 0) || !absent(&a.lse) || !absent(&a.weights) {
        return Err("only q, k, v, o and the causal rule are supported");
    }
    if a.scale_given != 0 || a.has_window != 0 {
        return Err("a given scale and windows are not supported");
    }
    let (q, k, v, o) = match (extents(&a.q), extents(&a.k), extents(&a.v), extents(&a.o)) {
        (Some(q), Some(k), Some(v), Some(o)) => (q, k, v, o),
        _ => return Err("only contiguous f32 [B, H, T, d] is supported"),
    };
    let [b, h, tq, d] = q;
    if o != q || k != v || k != [b, h, k[2], d] {
        return Err("grouped heads, dv != d or shapes that do not fit");
    }
    if a.causal == 1 && tq != k[2] {
        return Err("Tq != Tk with causal from the top left");
    }
    let [b, h, tq, tk, d] = [b, h, tq, k[2], d].map(|extent| extent as usize);
    Ok(Shape { b, h, tq, tk, d })
}

unsafe fn first(t: &Tensor) -> *mut f32 {
    t.data.cast::<u8>().add(t.byte_offset as usize).cast()
}

extern "C" fn supports(_: *const Kernel, args: *const ForwardArgs, why: *mut Text) -> i32 {
    match unsafe { read(args) } {
        Ok(_) => OK,
        Err(reason) => no(why, UNSUPPORTED, reason),
    }
}

extern "C" fn forward(
    _: *const Kernel,
    _: *mut c_void,
    args: *const ForwardArgs,
    _: *const c_void,
    why: *mut Text,
) -> i32 {
    unsafe {
        let s = match read(args) {
            Ok(shape) => shape,
            Err(reason) => return no(why, UNSUPPORTED, reason),
        };
        let a = &*args;
        let (rows, keys) = (s.b * s.h * s.tq * s.d, s.b * s.h * s.tk * s.d);
        attention(
            std::slice::from_raw_parts(first(&a.q), rows),
            std::slice::from_raw_parts(first(&a.k), keys),
            std::slice::from_raw_parts(first(&a.v), keys),
            std::slice::from_raw_parts_mut(first(&a.o), rows),
            &s,
            a.causal != 0,
        );
    }
    OK
}

#[no_mangle]
pub extern "C" fn qkvet_open(
    host: *const c_void,
    config: *const c_char,
    out: *mut c_void,
    why: *mut c_void,
) -> i32 {
    let why: *mut Text = why.cast();
    unsafe {
        if host.is_null() || (*host.cast::<Host>()).abi_major != 1 {
            return no(why, INVALID_ARGUMENT, "another version of the ABI");
        }
        if !config.is_null() && *config != 0 {
            return no(why, INVALID_ARGUMENT, "takes no configuration");
        }
        let out: *mut Library = out.cast();
        if out.is_null() || (*out).struct_size < std::mem::size_of::<Library>() {
            return no(why, INVALID_ARGUMENT, "the library struct is too small");
        }
        *out = Library {
            struct_size: std::mem::size_of::<Library>(),
            abi_major: 1,
            abi_minor: 0,
            name: concat!("mine", "\0").as_ptr().cast(),
            kernel_count: 1,
            kernels: &KERNELS,
            close: std::ptr::null(),
        };
    }
    OK
}
