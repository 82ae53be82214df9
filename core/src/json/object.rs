//! The members of an object: one walk finds all that a reader asks for.

use core::fmt;

use super::text::Unescape;
use super::value::{Problem, ReadError, Spans, Value};

/// The members of one object of a scanned text.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    member: &'static str,
    inner: &'a str,
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("member", &self.member).finish_non_exhaustive()
    }
}

impl<'a> Object<'a> {
    pub(super) const fn new(member: &'static str, inner: &'a str) -> Self {
        Self { member, inner }
    }

    /// All members in the order of the text: the raw key (between its quotes, still escaped) and the value, which
    /// carries this object's name.
    #[must_use]
    pub const fn members(&self) -> Members<'a> {
        Members { member: self.member, rest: Spans::new(self.inner) }
    }

    /// Finds the named members in one walk; others are ignored.
    #[must_use]
    pub fn pick<const N: usize>(&self, names: [&'static str; N]) -> [Member<'a>; N] {
        self.walk(names).0
    }

    /// As [`pick`](Self::pick), but the set is closed (N4).
    ///
    /// # Errors
    ///
    /// [`Problem::Unknown`] if the object has a member that is not named.
    pub fn pick_closed<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<[Member<'a>; N], ReadError> {
        match self.walk(names) {
            (found, false) => Ok(found),
            (_, true) => Err(ReadError { member: self.member, problem: Problem::Unknown }),
        }
    }

    /// One member. Each call is a walk of its own: use [`pick`](Self::pick) for more than one.
    #[must_use]
    pub fn field(&self, name: &'static str) -> Member<'a> {
        let [member] = self.pick([name]);
        member
    }

    fn walk<const N: usize>(&self, names: [&'static str; N]) -> ([Member<'a>; N], bool) {
        let mut found = names.map(|name| Member { name, text: None });
        let mut others = false;
        for (key, value) in self.members() {
            // No name of ours needs an escape, but a peer may use one.
            let escaped = key.contains('\\');
            let is = |name: &str| if escaped { Unescape::new(key).eq(name.chars()) } else { key == name };
            match found.iter_mut().find(|member| is(member.name)) {
                Some(member) => member.text = Some(value.text()),
                None => others = true,
            }
        }
        (found, others)
    }
}

/// The members of an object, in order: see [`Object::members`].
#[derive(Clone)]
pub struct Members<'a> {
    member: &'static str,
    rest: Spans<'a>,
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").field("member", &self.member).finish_non_exhaustive()
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.rest.next()?;
        let value = self.rest.next()?;
        let key = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
        Some((key, Value::new(self.member, value)))
    }
}

/// A member that was asked for, there or not.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    name: &'static str,
    text: Option<&'a str>,
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("present", &self.text.is_some()).finish()
    }
}

impl<'a> Member<'a> {
    /// The value, which has to be there. `null` is a value.
    ///
    /// # Errors
    ///
    /// [`Problem::Missing`].
    pub fn required(&self) -> Result<Value<'a>, ReadError> {
        self.present().ok_or(ReadError { member: self.name, problem: Problem::Missing })
    }

    /// The value if the member is there; `null` is a value (C10).
    #[must_use]
    pub fn present(&self) -> Option<Value<'a>> {
        self.text.map(|text| Value::new(self.name, text))
    }

    /// The value if the member is there and not `null` (C7).
    #[must_use]
    pub fn non_null(&self) -> Option<Value<'a>> {
        self.present().filter(|value| !value.is_null())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn object(text: &str) -> Object<'_> {
        parse(text.as_bytes()).unwrap().object().unwrap()
    }

    #[test]
    fn members_are_found_by_unescaped_name_in_any_order() {
        let object = object(r#"{ "b" : [1, 2] , "\u0061":"x","c":null,"aa":0 }"#);
        let [a, b, c, d] = object.pick(["a", "b", "c", "d"]);
        assert_eq!(a.required().unwrap().text(), "\"x\"");
        assert_eq!(b.required().unwrap().text(), "[1, 2]");
        assert_eq!(c.required().unwrap().text(), "null");
        assert!(c.non_null().is_none() && c.present().is_some());
        assert!(d.present().is_none() && d.non_null().is_none());
        assert_eq!(d.required().unwrap_err(), ReadError { member: "d", problem: Problem::Missing });
        assert_eq!(object.field("aa").required().unwrap().u64(), Ok(0));
        assert!(object.field("u0061").present().is_none());
    }

    #[test]
    fn n4_a_closed_set_refuses_one_more_member() {
        let names = ["a", "b"];
        assert!(object(r#"{"a":1,"b":2}"#).pick_closed(names).is_ok());
        assert!(object(r#"{"a":1}"#).pick_closed(names).is_ok());
        assert!(object("{}").pick_closed(names).is_ok());
        let error = object(r#"{"a":1,"":2}"#).pick_closed(names).unwrap_err();
        assert_eq!(error, ReadError { member: "body", problem: Problem::Unknown });
    }

    #[test]
    fn members_come_in_the_order_of_the_text() {
        let all: alloc::vec::Vec<_> = object(r#"{"z":{"y":1},"\u0041":[] }"#)
            .members()
            .map(|(key, value)| (key, value.text()))
            .collect();
        assert_eq!(all, [("z", r#"{"y":1}"#), (r"\u0041", "[]")]);
    }
}
