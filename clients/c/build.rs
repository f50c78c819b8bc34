//! Names the shared library by the version of its interface, so that a program finds the one that it was built for.

fn main() {
    // The first number of UC_ABI_VERSION.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libundercroft.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
