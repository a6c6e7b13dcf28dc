import assert from "node:assert/strict";
import { ApiError, type ApiErrorKind } from "../../../../core/objects/mod.ts";
import { readSiteMembers } from "../../../../features/site/lease.ts";

Deno.test("a site without a ConfigMap has no members; one that cannot be read is an error", async () => {
  const membersAfter = (kind: ApiErrorKind) => {
    const read = () => Promise.reject(new ApiError(kind, `it is ${kind}`));
    return readSiteMembers({ read }, "kube-system", "north", new AbortController().signal);
  };
  assert.deepEqual(await membersAfter("not-found"), []);
  await assert.rejects(membersAfter("forbidden"), /it is forbidden/);
});
