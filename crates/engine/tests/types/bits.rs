//! Compares bit operations on strings with a naive model, which is a vector of bytes.

use undercroft_engine::strings::{BitOperation, STRING_MAX};
use undercroft_engine::{Error, Expiry};
use undercroft_testkit::fresh;

fn bit(model: &[u8], offset: usize) -> bool {
    model
        .get(offset / 8)
        .is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

fn field(model: &[u8], offset: usize, bits: usize) -> u64 {
    (offset..offset + bits).fold(0, |value, at| value << 1 | u64::from(bit(model, at)))
}

fn set_field(model: &mut [u8], offset: usize, bits: usize, value: u64) {
    for place in 0..bits {
        let (at, mask) = ((offset + place) / 8, 0x80 >> ((offset + place) % 8));
        if value >> (bits - 1 - place) & 1 == 1 {
            model[at] |= mask;
        } else {
            model[at] &= !mask;
        }
    }
}

fn random_bytes(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = match random.u32(0..8) {
        0 => random.usize(0..3),
        1..=4 => random.usize(0..70),
        5 => random.usize(3900..4300),
        6 => random.usize(0..9000),
        _ => random.usize(60_000..70_000),
    };
    match random.u32(0..4) {
        0 => vec![0; length],
        1 => vec![0xff; length],
        2 => random.i64(..).to_string().into_bytes(),
        _ => (0..length).map(|_| random.u8(..)).collect(),
    }
}

#[test]
fn bit_fields_match_a_vector_of_bytes() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"bits");
    for _ in 0..200 {
        let mut model = random_bytes(&mut random);
        store
            .write(store.shards_of([&key]), |writer| {
                writer.remove(0, &key)?;
                if !model.is_empty() {
                    writer.set(0, &key, &model, Expiry::At(u64::MAX >> 1))?;
                }
                Ok::<_, Error>(())
            })
            .expect("room");
        for _ in 0..40 {
            let bits = random.usize(1..=64);
            let reach = if random.u32(0..30) == 0 {
                200_000
            } else {
                model.len() * 8 + 100
            };
            let offset = random.usize(0..reach);
            let length = (offset + bits).div_ceil(8);
            let value = random.u64(..) >> (64 - bits);
            let (old, grown) = store
                .write(store.shards_of([&key]), |writer| {
                    let (string, grown) = writer.bit_string(0, &key, length as u64)?;
                    let old = string
                        .text()
                        .bits(writer.view(), offset as u64, bits as u32)?;
                    writer.set_bits(&string, offset as u64, bits as u32, value)?;
                    Ok::<_, Error>((old, grown))
                })
                .expect("room");
            assert_eq!(grown, length > model.len());
            assert_eq!(old, field(&model, offset, bits));
            model.resize(model.len().max(length), 0);
            set_field(&mut model, offset, bits, value);
        }
        let mut found = Vec::new();
        assert!(store.get(0, b"bits", &mut found).expect("read"));
        assert_eq!(found, model);
        assert!(store.expiry(0, b"bits").expect("read").is_some());
    }
    assert_eq!(
        store.check().expect("checked").problems,
        Vec::<String>::new()
    );
}

#[test]
fn bit_counts_and_searches_match_a_vector_of_bytes() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"bits");
    for _ in 0..200 {
        let model = random_bytes(&mut random);
        store.set(0, b"bits", &model).expect("room");
        for _ in 0..10 {
            let total = model.len() * 8;
            let (mut start, mut end) = (random.usize(0..=total), random.usize(0..=total));
            if random.bool() {
                (start, end) = (0, total);
            }
            let sought = random.bool();
            let (count, first) = store
                .read(store.shards_of([&key]), |reader| {
                    let entry = reader.find(0, &key)?.expect("the key exists");
                    let text = entry.text(reader.view())?;
                    let (start, end) = (start as u64, end as u64);
                    let count = text.count_bits(reader.view(), start, end)?;
                    let first = text.find_bit(reader.view(), sought, start, end)?;
                    Ok::<_, Error>((count, first))
                })
                .expect("read");
            let expected = (start..end).filter(|&at| bit(&model, at)).count();
            assert_eq!(count, expected as u64, "{start}..{end} of {total}");
            let expected = (start..end).find(|&at| bit(&model, at) == sought);
            assert_eq!(
                first,
                expected.map(|at| at as u64),
                "{start}..{end} of {total}"
            );
        }
    }
}

#[test]
fn bit_combinations_match_vectors_of_bytes() {
    let mut random = fastrand::Rng::with_seed(fresh::seed());
    let (_directory, store) = fresh::store(2);
    for _ in 0..300 {
        let names: Vec<Vec<u8>> = (0..random.usize(1..5))
            .map(|name| vec![name as u8])
            .collect();
        let (mut models, mut made) = (Vec::new(), 0);
        for name in &names {
            let mut model = random_bytes(&mut random);
            if random.u32(0..6) == 0 {
                store.delete(0, &[name]).expect("room");
                model.clear();
            } else {
                made += 1;
                store.set(0, name, &model).expect("room");
            }
            models.push(model);
        }
        let operation = random.choice([BitOperation::And, BitOperation::Or, BitOperation::Xor]);
        let operation = match operation {
            Some(operation) if names.len() > 1 => operation,
            _ => BitOperation::Not,
        };
        let sources: Vec<_> = names.iter().map(|name| store.key(name)).collect();
        // The destination can be one of the sources.
        let target_name = [random.u8(0..6)];
        let target = store.key(&target_name);
        let shards = store.shards_of(sources.iter().chain([&target]));
        let (length, there) = store
            .write(shards, |writer| {
                writer.combine_bits(0, operation, &target, &sources)
            })
            .expect("room");
        let longest = models.iter().map(Vec::len).max().unwrap_or(0);
        let mut expected = vec![0; longest];
        for (number, model) in models.iter().enumerate() {
            for (at, to) in expected.iter_mut().enumerate() {
                let byte = model.get(at).copied().unwrap_or(0);
                *to = match operation {
                    BitOperation::Not => !byte,
                    _ if number == 0 => byte,
                    BitOperation::And => *to & byte,
                    BitOperation::Or => *to | byte,
                    BitOperation::Xor => *to ^ byte,
                };
            }
        }
        assert_eq!(length, longest as u64);
        assert_eq!(there, made);
        let mut found = Vec::new();
        assert_eq!(
            store.get(0, &target_name, &mut found).expect("read"),
            longest > 0
        );
        assert_eq!(found, expected);
    }
    assert_eq!(
        store.check().expect("checked").problems,
        Vec::<String>::new()
    );
}

#[test]
fn string_never_exceeds_its_maximum_length() {
    let (_directory, store) = fresh::store(2);
    let key = store.key(b"bits");
    let grow = |length| {
        store.write(store.shards_of([&key]), |writer| {
            writer.bit_string(0, &key, length).map(|(_, grown)| grown)
        })
    };
    assert!(matches!(grow(STRING_MAX + 1), Err(Error::TooLong)));
    assert_eq!(store.exists(0, &[b"bits"]).expect("read"), 0);
    assert!(grow(100_000).expect("room"));
    assert!(!grow(1).expect("room"));
}
