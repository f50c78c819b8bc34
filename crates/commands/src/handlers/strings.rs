//! Reading and writing whole strings.

use crate::handler::{Context, Failure};
use crate::reply::Reply;

/// GET key.
#[inline]
pub(crate) fn plain_get<R: Reply + ?Sized>(
    context: &mut Context<'_>,
    key: &[u8],
    reply: &mut R,
) -> Result<(), Failure> {
    let database = context.database();
    context.session.scratch.clear();
    let found = context
        .store
        .get(database, key, &mut context.session.scratch)?;
    context.count_lookup(found);
    if found {
        reply.bulk(&context.session.scratch);
    } else {
        reply.null();
    }
    Ok(())
}

/// SET key value, without options.
#[inline]
pub(crate) fn plain_set<R: Reply + ?Sized>(
    context: &mut Context<'_>,
    key: &[u8],
    value: &[u8],
    reply: &mut R,
) -> Result<(), Failure> {
    context.store.set(context.database(), key, value)?;
    reply.ok();
    Ok(())
}

/// GET.
pub(crate) fn get(
    context: &mut Context<'_>,
    arguments: &[&[u8]],
    reply: &mut dyn Reply,
) -> Result<(), Failure> {
    plain_get(context, arguments[1], reply)
}
