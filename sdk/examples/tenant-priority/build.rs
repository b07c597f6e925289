//! Links the plugin with libcoordinator.so, which is where COORDINATOR_LIB says or else pkg-config.
use std::env;
use std::process::Command;

fn of_pkg_config() -> String {
    let output = Command::new("pkg-config")
        .args(["--variable=libdir", "coordinator"])
        .output()
        .expect("pkg-config cannot be run");

    assert!(output.status.success(), "pkg-config does not know the coordinator: set PKG_CONFIG_PATH");
    String::from_utf8(output.stdout).expect("a path in UTF-8").trim().to_string()
}

fn main() {
    let folder = env::var("COORDINATOR_LIB").unwrap_or_else(|_| of_pkg_config());

    for argument in [&format!("-L{}", folder), "-lcoordinator", "-Wl,-z,now", "-Wl,-Bsymbolic"] {
        println!("cargo:rustc-cdylib-link-arg={}", argument);
    }
    println!("cargo:rerun-if-env-changed=COORDINATOR_LIB");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
}
