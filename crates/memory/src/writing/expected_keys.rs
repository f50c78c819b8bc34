//! The growth of hint tables with the keys of their shards.

use crate::allocator::ahead::Ahead;
use crate::segment::hints;
use crate::writing::transaction::Transaction;

impl Transaction<'_> {
    /// Says how many keys a shard has, now and then, so that its hint table
    /// grows with them: after the commit, outside the lock, a bounded part each
    /// time.
    pub fn expect_keys(&mut self, index: usize, keys: u64) {
        if hints::bits_for(keys) > hints::bits(self.segment, index) {
            self.rest().ahead.push(Ahead::Hints(index, keys));
        }
    }
}
