//! Methods that try a typed engine call before redis-py's method of the same name. Their arguments
//! or results are too complex for a table row, so only clients with redis-py's methods have them.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::client::Client;
use crate::hot::{Hot, Taking, streams};
use crate::methods::fastcall::{Call, Method, Outcome, add};

/// Defines the methods. Each entry lists the command, method, typed call, parameters, and
/// docstring.
macro_rules! methods {
    ($($command:ident $name:ident $room:ident::$hot:ident $parameters:literal, $does:literal;)*) => {
        $(
            impl Method<Client> for $room::$hot {
                const NAME: &'static str = stringify!($name);

                fn text() -> String {
                    concat!(stringify!($name), "($self, ", $parameters, ")\n--\n\n", $does).to_owned()
                }

                #[inline(always)]
                fn call(call: &Call<'_, '_>) -> Outcome {
                    <$room::$hot as Hot>::call(call)
                }
            }
        )*

        /// The commands, each with the name of its method.
        const METHODS: &[(&str, &str)] = &[$((stringify!($command), stringify!($name))),*];

        /// Add the typed methods to a client class that has redis-py's methods.
        #[pyfunction]
        fn add_typed(class: &Bound<'_, PyType>) -> PyResult<()> {
            $(add::<Client, $room::$hot>(class)?;)*
            add::<Client, Delivered>(class)
        }
    };
}

methods! {
    XADD xadd streams::Xadd "name, fields, id='*', maxlen=None, approximate=True, nomkstream=False, minid=None, limit=None, *args, **options", "Add an entry to a stream. Return its id.";
    XLEN xlen streams::Xlen "name", "Return the number of entries in a stream.";
    XRANGE xrange streams::Xrange "name, min='-', max='+', count=None", "Return the entries of a stream between two ids.";
    XREVRANGE xrevrange streams::Xrevrange "name, max='+', min='-', count=None", "Return the entries of a stream between two ids, newest first.";
    XREAD xread streams::Xread "streams, count=None, block=None, *args, **options", "Return the entries of each stream after a given id.";
    XACK xack streams::Xack "name, groupname, *ids", "Acknowledge delivered entries. Return how many were pending.";
}

/// XREADGROUP with a `taken` list for the delivered entries. `undercroft.embedded.taking` builds
/// the public method on it.
struct Delivered;

impl Method<Client> for Delivered {
    const NAME: &'static str = "_xreadgroup";

    fn text() -> String {
        "_xreadgroup($self, taken, groupname, consumername, streams, count=None, block=None, noack=False, *args, **options)\n--\n\nReturn the next stream entries for a consumer in a group.".to_owned()
    }

    #[inline(always)]
    fn call(call: &Call<'_, '_>) -> Outcome {
        let (taken, call) = call.split_taken()?;
        <streams::Xreadgroup as Taking>::take(&call, &taken)
    }
}

/// Adds the list of typed methods, and the function that installs them, to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TYPED_METHODS", METHODS.to_vec())?;
    module.add_function(wrap_pyfunction!(add_typed, module)?)
}
