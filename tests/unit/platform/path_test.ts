import assert from "node:assert/strict";
import { posix } from "node:path";
import fc from "fast-check";
import { basename, dirname, pathIn } from "../../../platform/files.ts";
import { runs } from "../../property/runs.ts";

const paths = fc.array(fc.constantFrom("/", "a", "bc", ".", ".."), { maxLength: 8 }).map((parts) => parts.join(""));

Deno.test("folders and names of paths are the ones of node:path", () => {
  fc.assert(
    fc.property(paths.filter((path) => path !== ""), (path) => {
      assert.equal(posix.resolve(dirname(path)), posix.resolve(posix.dirname(path)));
      assert.equal(basename(path), posix.basename(path));
    }),
    runs(100),
  );
});

Deno.test("a relative path is one in the folder", () => {
  fc.assert(
    fc.property(paths.filter((path) => path !== ""), paths.filter((path) => path !== ""), (folder, file) => {
      const expected = posix.isAbsolute(file) ? file : posix.join(folder, file);
      assert.equal(posix.normalize(pathIn(folder, file)), posix.normalize(expected));
    }),
    runs(100),
  );
  assert.equal(pathIn("/etc/kubernetes/", "./pki/ca.crt"), "/etc/kubernetes/pki/ca.crt");
});
