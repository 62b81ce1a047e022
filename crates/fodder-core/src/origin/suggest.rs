//! Guesses what a misspelt word was meant to be.

/// The word among `known` that is nearest to `word`, if any is near.
pub(super) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|known| (strsim::damerau_levenshtein(word, known), known));
    let most = (word.chars().count() / 3).max(1);
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// ` (did you mean "…"?)` or nothing.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, known).map(|known| format!(" (did you mean {known:?}?)")).unwrap_or_default()
}
