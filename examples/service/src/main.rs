//! Runs the service: `undercroft-example-service CACHE ADDRESS`.

use undercroft_example_service::service;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or("undercroft://profiles".into());
    let address = arguments.next().unwrap_or("127.0.0.1:8080".into());
    let cache = undercroft::cache(&url)?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("profiles of {url} at http://{}", listener.local_addr()?);
    axum::serve(listener, service(cache)).await?;
    Ok(())
}
