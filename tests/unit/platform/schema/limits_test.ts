import assert from "node:assert/strict";
import { checkLimits, duration, fieldAt, integer, section, sections } from "../../../../platform/schema/mod.ts";

const FIELDS = {
  port: integer(1, { from: 1, to: 9 }),
  count: integer(1, { from: 1 }),
  any: integer(1),
  wait: duration(1, { from: 1_000, to: 60_000 }),
  part: section({ share: integer(1, { from: 0, to: 1 }) }),
  parts: sections({ share: integer(1, { from: 0, to: 1 }) }),
};
const VALID = { port: 5, count: 5, any: 0, waitMs: 5_000, part: { share: 1 }, parts: [{ share: 0 }, { share: 1 }] };

/** The reports about the valid values with these changes. */
function reported(changes: Partial<typeof VALID>): readonly string[] {
  const lines: string[] = [];
  checkLimits(FIELDS, { ...VALID, ...changes }, (path, value, must) => lines.push(`${path} ${value} ${must}`));
  return lines;
}

Deno.test("values at both limits are valid, those beyond are reported with their path and limits", () => {
  assert.deepEqual(reported({}), []);
  assert.deepEqual(reported({ port: 1, count: 1, any: -5, waitMs: 1_000 }), []);
  assert.deepEqual(reported({ port: 9, count: Number.MAX_SAFE_INTEGER, waitMs: 60_000 }), []);
  assert.deepEqual(reported({ port: 0 }), ["port 0 must be 1 to 9"]);
  assert.deepEqual(reported({ port: 10 }), ["port 10 must be 1 to 9"]);
  assert.deepEqual(reported({ count: 0 }), ["count 0 must be 1 or more"]);
  assert.deepEqual(reported({ waitMs: 999 }), ["wait 999ms must be 1s to 1m"]);
  assert.deepEqual(reported({ waitMs: 60_001 }), ["wait 1m0.001s must be 1s to 1m"]);
  assert.deepEqual(reported({ part: { share: 2 }, port: 0 }), ["port 0 must be 1 to 9", "part.share 2 must be 0 to 1"]);
  const parts = [{ share: 1 }, { share: -1 }];
  assert.deepEqual(reported({ parts }), ["parts[1].share -1 must be 0 to 1"]);
});

Deno.test("a path leads to a field and its value; one that leads to none is an error with the path", () => {
  const share = fieldAt(FIELDS, "part.share"), wait = fieldAt(FIELDS, "wait");
  assert.deepEqual([share.field, share.get(VALID), wait.get(VALID)], [FIELDS.part.fields.share, 1, 5_000]);
  const values = { ...VALID, part: { share: 1 } };
  share.set(values, 0);
  wait.set(values, 7);
  assert.deepEqual([values.part.share, values.waitMs], [0, 7]);
  for (const path of ["", "none", "part.none", "port.none", "parts.share"]) {
    assert.throws(() => fieldAt(FIELDS, path), new RegExp(`^Error: the configuration has no (field|section) ${path}$`));
  }
});
