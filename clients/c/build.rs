//! Sets the shared library's name by the version of its interface, so that a program loads a
//! compatible one.

fn main() {
    // The upper half of UC_ABI_VERSION.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libundercroft.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
