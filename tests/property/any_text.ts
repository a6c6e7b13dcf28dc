import fc from "fast-check";

/** Code points that JSON escapes or that delimit something, and any others. */
const codePoint = fc.oneof(
  fc.constantFrom('"', "\\", "{", "}", "[", "]", "\n", "\0", "a"),
  fc.integer({ min: 0, max: 0xd7ff }).map((point) => String.fromCodePoint(point)),
  fc.integer({ min: 0xe000, max: 0x10ffff }).map((point) => String.fromCodePoint(point)),
);

/** Texts of any code points. fast-check's own units take a second to be loaded. */
export function anyText(
  lengths: { readonly minLength?: number; readonly maxLength?: number } = {},
): fc.Arbitrary<string> {
  return fc.string({ unit: codePoint, ...lengths });
}
