pub const SERVER_VERSION: &str = "8.0.36-redolith-0.1.0";
