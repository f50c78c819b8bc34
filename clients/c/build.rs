//! Names the shared library after the version of its interface, so that a program loads a
//! compatible library.

fn main() {
    // The 0 is the upper half of UC_ABI_VERSION.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libundercroft.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
