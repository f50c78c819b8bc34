//! Maintains accounts whose balances always add up to zero. Transactions of several commands, some
//! of which are rolled back, transfer amounts between the accounts.

use undercroft_engine::{Error, Store};

/// The number of accounts.
const ACCOUNTS: u32 = 12;

fn account(index: u32) -> Vec<u8> {
    format!("account:{index}").into_bytes()
}

/// Transfers several amounts between accounts in one transaction. Some of the transfers, and
/// occasionally the entire transaction, are rolled back.
pub(super) fn transfer(store: &Store, random: &mut fastrand::Rng) -> Result<(), Error> {
    let moves: Vec<(Vec<u8>, Vec<u8>, i64, bool)> = (0..random.usize(1..5))
        .map(|_| {
            let [from, to] = [0, 1].map(|_| account(random.u32(0..ACCOUNTS)));
            (from, to, random.i64(1..1000), random.u8(0..4) == 0)
        })
        .collect();
    let keys = moves.iter().flat_map(|(from, to, ..)| [from, to]);
    let keys: Vec<_> = keys.map(|key| store.key(key)).collect();
    let all_undone = random.u8(0..8) == 0;
    let done = store.transact(store.shards_of(&keys), |running| {
        let access = running.access();
        for (from, to, amount, undone) in &moves {
            let savepoint = running.savepoint();
            access.increment(0, from, -amount)?;
            if *undone {
                access.set(0, to, b"not a balance")?;
                running.roll_back_to(&savepoint)?;
            } else {
                access.increment(0, to, *amount)?;
            }
        }
        if all_undone {
            Err(Error::Overflow)
        } else {
            Ok(())
        }
    });
    match done {
        Err(Error::Overflow) if all_undone => Ok(()),
        done => done,
    }
}

/// Reads all balances in one snapshot, and checks that they add up to zero.
pub fn check_accounts(store: &Store) -> Result<(), String> {
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let balances = store
        .get_many(0, &keys)
        .map_err(|error| error.to_string())?;
    let mut balances = keys.iter().zip(balances);
    check_balances(|_| balances.next()?.1)
}

/// Checks that the balances add up to zero. `read` returns the balance of an account's key, and is
/// called for all accounts in order.
pub(super) fn check_balances(mut read: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Result<(), String> {
    let mut sum = 0;
    for text in (0..ACCOUNTS).filter_map(|index| read(&account(index))) {
        let text = String::from_utf8_lossy(&text);
        sum += text
            .parse::<i64>()
            .map_err(|_| format!("an account: expected a balance, got {text:?}"))?;
    }
    if sum == 0 {
        Ok(())
    } else {
        Err(format!("the accounts add up to {sum}, expected 0"))
    }
}
