//! The structural check of a pool (a shard's own slabs, or an arena), which covers its block runs
//! and its lists of pages.

use crate::heap::pages::{PageUse, all_free, bitmap_words};
use crate::inspection::report::{Owned, Report};
use crate::mapped::classes;
use crate::mapped::layout::{PAGE, descriptor, shard};
use crate::segment::Segment;

/// Checks one run of a pool: a run of blocks, or a free page. `pool` contains the offset of the
/// pool's words and the tag of its runs. Returns the number of bytes in the run's blocks.
pub(crate) fn used_run(
    segment: &Segment,
    page: u64,
    pages: u64,
    (words, tag): (u64, u64),
    owned: &mut Owned,
    report: &mut Report,
) -> u64 {
    let mapping = &segment.mapping;
    let layout = *mapping.layout();
    let mut list = |word: u64| owned.listed.entry(word).or_default().insert(page);
    let kind = mapping.load(layout.descriptor(page) + descriptor::KIND);
    let mut bytes = 0;
    match PageUse::unpack(kind).filter(|_| PageUse::tag_of(kind) == tag) {
        Some(PageUse::Free) if pages == 1 => {
            list(words + shard::FREE_LIST);
        }
        Some(PageUse::Large) => {
            owned.blocks.insert(layout.page(page));
            bytes += pages * PAGE;
            report.blocks += 1;
        }
        Some(PageUse::Slab(class)) if u64::from(classes::SLAB_PAGES[class]) == pages => {
            let all = all_free(class);
            let count = bitmap_words(class) as usize;
            let bitmap = layout.descriptor(page) + descriptor::BITMAP;
            let bits: Vec<u64> = (0..count as u64)
                .map(|word| mapping.load(bitmap + word * 8))
                .collect();
            if bits.iter().any(|&bits| bits != 0) {
                list(words + shard::CLASSES + class as u64 * 8);
            }
            for distance in 1..pages {
                if mapping.page_use(page + distance) != Some(PageUse::Continued(distance)) {
                    report.problem(|| {
                        format!("page {}: does not belong to the slab", page + distance)
                    });
                }
            }
            for (word, (bits, all)) in bits.into_iter().zip(all).enumerate() {
                if bits & !all != 0 {
                    report.problem(|| format!("page {page}: free blocks beyond the slab"));
                }
                let mut used = all & !bits;
                while used != 0 {
                    let block = word as u64 * 64 + u64::from(used.trailing_zeros());
                    used &= used - 1;
                    let size = u64::from(classes::SIZES[class]);
                    owned.blocks.insert(layout.page(page) + block * size);
                    bytes += size;
                    report.blocks += 1;
                }
            }
        }
        kind => report.problem(|| format!("page {page}: a run of {pages} pages used as {kind:?}")),
    }
    report.block_bytes += bytes;
    bytes
}

/// Checks that a list of a shard's pages matches the recorded uses of the pages.
pub(crate) fn list(
    segment: &Segment,
    index: usize,
    list: u64,
    returning: u64,
    owned: &mut Owned,
    report: &mut Report,
) {
    let mapping = &segment.mapping;
    let layout = *mapping.layout();
    let graveyard = layout.shard(index) + shard::GRAVEYARD;
    let mut expected = owned.listed.remove(&list).unwrap_or_default();
    let mut link = mapping.load(list);
    let mut previous = 0;
    while link != 0 {
        let page = link - 1;
        if !expected.remove(&page) {
            report.problem(|| {
                format!("shard {index}: page {page} must not be on the list at {list:#x}")
            });
            break;
        }
        let at = layout.descriptor(page);
        // Pages are removed from the graveyard only at its front, without updating the back links.
        let back = mapping.load(at + descriptor::PREVIOUS);
        if back != previous && list != graveyard {
            report.problem(|| format!("shard {index}: page {page} has a wrong back link"));
        }
        previous = link;
        link = mapping.load(at + descriptor::NEXT);
    }
    expected.remove(&returning);
    for page in expected {
        report.problem(|| {
            format!("shard {index}: page {page} is missing from the list at {list:#x}")
        });
    }
}

/// Returns the lists of a pool: one of free pages, and one of slabs for each size class.
pub(crate) fn lists(words: u64) -> impl Iterator<Item = u64> {
    let classes = (0..classes::COUNT as u64).map(move |class| words + shard::CLASSES + class * 8);
    classes.chain([words + shard::FREE_LIST])
}
