#[derive(Debug, Default)] struct Lowest(BTreeSet<u32>);
impl Residency for Lowest {
    fn hit(&mut self, _id: u32) {}
    fn admit(&mut self, id: u32, _bytes: u32, room: bool) -> bool { room || self.0.last().is_none_or(|&top| id < top) }
    fn victim(&mut self, _pressure: Pressure) -> Option<u32> { self.0.last().copied() }
    fn inserted(&mut self, id: u32, _bytes: u32) { self.0.insert(id); }
    fn removed(&mut self, id: u32) { self.0.remove(&id); }
    fn len(&self) -> usize { self.0.len() }
    fn memory_bytes(&self) -> usize { size_of::<Self>() + self.0.len() * size_of::<u32>() }
}
