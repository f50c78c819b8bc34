//! A view of a mapping in which an overlay replaces changed words with their old values (R9).

use std::marker::PhantomData;
use std::ops::Deref;

use crate::mapped::mapping::Mapping;
use crate::mapped::overlay::{Changed, Overlay, SavedWords};

/// A mapping whose reads consult an overlay, which contains the old values of changed words.
pub(crate) struct Overlaid<'m> {
    mapping: Mapping,
    _below: PhantomData<&'m Mapping>,
}

impl Mapping {
    /// Returns a view of this mapping that reads through `overlay`.
    pub(crate) fn overlaid(&self, overlay: Overlay) -> Overlaid<'_> {
        Overlaid {
            // SAFETY: the lifetime of the returned `Overlaid` keeps `self` borrowed, so the mapping
            // outlives it.
            mapping: unsafe { self.under(overlay) },
            _below: PhantomData,
        }
    }
}

impl Overlaid<'_> {
    /// Adds words that undo log entries saved. Returns true if any of those words was read before
    /// the overlay contained it.
    pub(crate) fn add_saved(&self, saved: &SavedWords) -> bool {
        let overlay = self.mapping.overlay.as_ref();
        overlay.is_some_and(|overlay| overlay.add(saved))
    }

    /// Removes the saved words from the overlay and returns them.
    pub(crate) fn take_changed(&self) -> Changed {
        let overlay = self.mapping.overlay.as_ref();
        overlay.map_or_else(Changed::default, Overlay::take_changed)
    }

    /// Clears the list of ranges that have been read.
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
