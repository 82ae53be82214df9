//! `catalog`: which components a host has.

use crate::args::Common;
use crate::connect::{Failed, connect};
use crate::exit::{Exit, Stop};
use crate::output::{Output, printable};
use crate::runtime::Job;
use clap::Args;
use hostwire::Runtime;
use hostwire::client::Patience;
use hostwire::core::client::CatalogFilter;
use hostwire::core::control::{CatalogEntry, CatalogReply};
use serde::Serialize;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `catalog`.
#[derive(Debug, Args)]
pub(crate) struct Catalog {
    /// Only this component
    #[arg(long, value_name = "ID")]
    module_id: Option<String>,
}

impl Catalog {
    pub(crate) fn prepare(self, common: Common) -> Result<Prepared, Stop> {
        let filter = CatalogFilter::new(self.module_id.as_deref()).map_err(Stop::usage)?;
        Ok(Prepared { common, filter })
    }
}

/// A look at the catalog that can begin.
pub(crate) struct Prepared {
    common: Common,
    filter: CatalogFilter,
}

impl Job for Prepared {
    type Output = Result<Exit, Stop>;

    async fn run<R: Runtime>(self, runtime: R) -> Self::Output {
        let output = self.common.output();
        let client = match connect(&runtime, &self.common).await {
            Ok(client) => client,
            Err(error) => return output.not_connected(&error),
        };
        let exit = match client.catalog(self.filter, Patience::For(TIMEOUT)).await {
            Ok(catalog) => print(output, &catalog)?,
            Err(error) => Failed::from(error).print(output)?,
        };
        client.close().await;
        Ok(exit)
    }
}

/// The response object, in the contract's order (protocol.md §8).
#[derive(Serialize)]
struct Response<'a> {
    op: &'static str,
    generation: u64,
    modules: Vec<Module<'a>>,
    subc_ops: &'a [Box<str>],
}

#[derive(Serialize)]
struct Module<'a> {
    module_id: &'a str,
    module_version: &'a str,
    roles: &'a [Box<str>],
    control_ops: &'a [Box<str>],
}

impl<'a> Module<'a> {
    fn of(entry: &'a CatalogEntry) -> Self {
        let CatalogEntry { module_id, module_version, roles, control_ops } = entry;
        Self { module_id, module_version, roles, control_ops }
    }
}

fn print(output: Output, catalog: &CatalogReply) -> Result<Exit, Stop> {
    if output.json {
        output.object(&Response {
            op: "catalog.list",
            generation: catalog.generation,
            modules: catalog.modules.iter().map(Module::of).collect(),
            subc_ops: &catalog.subc_ops,
        })?;
    } else {
        for entry in &catalog.modules {
            let (id, version) = (printable(&entry.module_id), printable(&entry.module_version));
            output.line(&format!("{id} {version} ({})", printable(&entry.roles.join(", "))))?;
        }
    }
    Ok(Exit::SUCCESS)
}
