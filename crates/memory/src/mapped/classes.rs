//! The size classes of blocks: one per 8 bytes up to 128 bytes, then four per doubling (H3).

/// The block size of each class, in bytes. Class 0 contains blocks of 16 bytes.
pub(crate) const SIZES: [u32; COUNT] = sizes();
/// The number of pages in a slab of each class. At most an eighth of a slab is unused space at its
/// end.
pub(crate) const SLAB_PAGES: [u8; COUNT] = slab_pages();
/// The number of classes.
pub(crate) const COUNT: usize = 15 + 28;
/// The size of the largest block in a slab, in bytes. A larger block is a run of pages.
pub(crate) const LARGEST: u32 = 16 * 1024;

const fn sizes() -> [u32; COUNT] {
    let mut sizes = [0; COUNT];
    let mut index = 0;
    while index < 15 {
        sizes[index] = 16 + 8 * index as u32;
        index += 1;
    }
    let mut base = 128;
    while base < LARGEST {
        let mut quarter = 1;
        while quarter <= 4 {
            sizes[index] = base + base / 4 * quarter;
            index += 1;
            quarter += 1;
        }
        base *= 2;
    }
    sizes
}

const fn slab_pages() -> [u8; COUNT] {
    let mut pages = [1; COUNT];
    let mut index = 0;
    while index < COUNT {
        let mut count = 1;
        while count <= 8 {
            let bytes = count * 4096;
            let lost = bytes % SIZES[index];
            if bytes >= SIZES[index] && lost * 8 <= bytes {
                break;
            }
            count += 1;
        }
        pages[index] = count as u8;
        index += 1;
    }
    pages
}

/// Returns the smallest class whose blocks can hold `bytes` bytes, or `None` if only a run of pages
/// can.
#[inline]
pub(crate) fn class_of(bytes: u64) -> Option<usize> {
    if bytes <= 128 {
        return Some((bytes.max(16).div_ceil(8) - 2) as usize);
    }
    if bytes > u64::from(LARGEST) {
        return None;
    }
    // The range (base, 2 * base] has four classes, where base is the largest power of two below
    // `bytes`.
    let base_log = 63 - (bytes - 1).leading_zeros() as u64;
    let quarter = ((bytes - 1) >> (base_log - 2)) & 3;
    Some((15 + (base_log - 7) * 4 + quarter) as usize)
}

/// Returns the size of the block that is allocated for `bytes` bytes: the block size of a class, or
/// a multiple of the page size.
#[inline]
pub fn block_size(bytes: u64) -> u64 {
    match class_of(bytes) {
        Some(class) => u64::from(SIZES[class]),
        None => bytes
            .checked_next_multiple_of(crate::mapped::layout::PAGE)
            .unwrap_or(u64::MAX),
    }
}

/// Returns the number of blocks in a slab of the class.
#[inline]
pub(crate) fn blocks(class: usize) -> u32 {
    u32::from(SLAB_PAGES[class]) * 4096 / SIZES[class]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_is_the_smallest_that_fits() {
        for bytes in 1..=u64::from(LARGEST) {
            let naive = SIZES.iter().position(|&size| u64::from(size) >= bytes);
            assert_eq!(class_of(bytes), naive, "{bytes} bytes");
        }
        assert_eq!(class_of(u64::from(LARGEST) + 1), None);
    }

    #[test]
    fn every_slab_fits_its_bitmap_and_wastes_at_most_an_eighth() {
        for class in 0..COUNT {
            assert!((1..=256).contains(&blocks(class)), "class {class}");
            // The bitmap of a slab in an arena has only three words (`descriptor::SIBLINGS`).
            assert!(class == 0 || blocks(class) <= 192, "class {class}");
            let bytes = u32::from(SLAB_PAGES[class]) * 4096;
            assert!((bytes % SIZES[class]) * 8 <= bytes, "class {class}");
        }
        assert_eq!(SIZES[COUNT - 1], LARGEST);
    }
}
