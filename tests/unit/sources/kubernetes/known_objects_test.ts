import assert from "node:assert/strict";
import type { Decode } from "../../../../core/objects/mod.ts";
import { createKnownObjects } from "../../../../sources/kubernetes/known_objects.ts";
import { service } from "../../../fakes/cluster_objects.ts";

/** An object as the API sends it: one that is `partly` usable has a problem, one that is `useless` has nothing else. */
const raw = (name: string, resourceVersion: string, usable: "wholly" | "partly" | "useless" = "wholly") => (
  { metadata: { namespace: "default", name, resourceVersion }, usable }
);

const decode: Decode = (_, object) => {
  const { metadata: { namespace, name }, usable } = object as ReturnType<typeof raw>;
  return {
    ref: { kind: "Service", namespace, name },
    object: usable === "useless" ? undefined : service(`${namespace}/${name}`),
    problems: usable === "wholly" ? [] : ["a port is ignored"],
  };
};

/** Known objects, what they have reported, and the objects with a problem. */
function knownObjects() {
  const reported: string[] = [], problems = new Set<string>();
  const known = createKnownObjects("Service", decode, {
    set: (object) => void reported.push(`set ${object.name}`),
    delete: ({ name }) => void reported.push(`delete ${name}`),
    synced: assert.fail,
    reset: assert.fail,
    problems(scope, list) {
      if (list.length > 0) problems.add(scope);
      else problems.delete(scope);
    },
  });
  return { known, take: () => reported.splice(0), problems: () => [...problems].sort() };
}

Deno.test("each version of an object is reported once, until the versions are forgotten", () => {
  const { known, take } = knownObjects();
  for (const version of ["1", "1", "2", "1", "", ""]) known.set(raw("web", version));
  assert.deepEqual(take(), Array(5).fill("set web"));
  known.set(raw("web", "3"));
  known.invalidate();
  known.set(raw("web", "3"));
  known.set(raw("web", "3"));
  assert.deepEqual(take(), ["set web", "set web"]);
});

Deno.test("the end of a list deletes the objects and ends the problems that are not in it", () => {
  const { known, take, problems } = knownObjects();
  for (const name of ["stays", "goes"]) known.set(raw(name, "1", "partly"));
  for (const name of ["useless", "gone"]) known.set(raw(name, "1", "useless"));
  assert.equal(problems().length, 4);
  take();
  const endList = known.startList();
  known.set(raw("stays", "1", "partly"));
  known.set(raw("useless", "1", "useless"));
  endList();
  assert.deepEqual([take(), problems()], [["delete goes"], ["Service default/stays", "Service default/useless"]]);
});

Deno.test("a deletion, and a version that cannot be used, delete an object once; the first also ends its problem", () => {
  const { known, take, problems } = knownObjects();
  known.set(raw("web", "1", "partly"));
  known.set(raw("web", "2", "useless"));
  known.set(raw("web", "3", "useless"));
  assert.deepEqual([take(), problems()], [["set web", "delete web"], ["Service default/web"]]);
  known.delete(raw("web", "4"));
  assert.deepEqual([take(), problems()], [[], []]);
});
