//! A mapping of which the words that were changed are read from an overlay (R9).

use std::marker::PhantomData;
use std::ops::Deref;

use crate::mapped::mapping::Mapping;
use crate::mapped::overlay::{Changed, Overlay, SavedWords};

/// A mapping under an overlay.
pub(crate) struct Overlaid<'m> {
    mapping: Mapping,
    _below: PhantomData<&'m Mapping>,
}

impl Mapping {
    /// This mapping under an overlay.
    pub(crate) fn overlaid(&self, overlay: Overlay) -> Overlaid<'_> {
        Overlaid {
            // SAFETY: the lifetime keeps `self` for as long as the result.
            mapping: unsafe { self.under(overlay) },
            _below: PhantomData,
        }
    }
}

impl Overlaid<'_> {
    /// Adds what entries of a log saved. Returns whether any of the words was read before it was known to have changed.
    pub(crate) fn add_saved(&self, saved: &SavedWords) -> bool {
        let overlay = self.mapping.overlay.as_ref();
        overlay.is_some_and(|overlay| overlay.add(saved))
    }

    /// Takes what was changed off.
    pub(crate) fn take_changed(&self) -> Changed {
        let overlay = self.mapping.overlay.as_ref();
        overlay.map_or_else(Changed::default, Overlay::take_changed)
    }

    /// Forgets what was read.
    pub(crate) fn forget_reads(&self) {
        if let Some(overlay) = &self.mapping.overlay {
            overlay.forget_reads();
        }
    }
}

impl Deref for Overlaid<'_> {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}
