import assert from "node:assert/strict";
import type { ApiClient } from "../../../../sources/kubernetes/http.ts";
import { listResource } from "../../../../sources/kubernetes/list.ts";
import { resourcesOf } from "../../../../sources/kubernetes/resource.ts";

/** Lists Services from a server that answers with these pages; returns the queries and the number of objects. */
async function list(pages: readonly unknown[], mayBeOld: boolean, pageSize?: number) {
  const [resource] = resourcesOf(["Service"], "n1"), queries: string[] = [];
  let items = 0;
  const send: ApiClient["send"] = ({ path }, onChunk) => {
    const query = new URLSearchParams(path.split("?")[1]);
    queries.push(["limit", "continue", "resourceVersion"].map((name) => query.get(name) ?? "-").join(" "));
    const body = new TextEncoder().encode(JSON.stringify(pages[queries.length - 1]));
    for (let at = 0; at < body.length; at += 2 ** 20) onChunk(body.subarray(at, at + 2 ** 20));
    return Promise.resolve();
  };
  const options = {
    resource: resource!,
    api: { server: "https://api", send, close() {} },
    pageSize,
    readDeadlineMs: 1,
  };
  const from = await listResource({ ...options, mayBeOld }, () => items++, new AbortController().signal);
  return { from, queries, items };
}

const page = (items: readonly unknown[], more = "") => ({ metadata: { resourceVersion: "7", continue: more }, items });

Deno.test("an old state is requested for the first page alone, and whole unless there is a page size", async () => {
  const pages = [page([1], "two"), page([2], "three"), page([3])];
  assert.deepEqual((await list(pages, true, 10)).queries, ["10 - 0", "10 two -", "10 three -"]);
  assert.deepEqual((await list(pages, false)).queries, ["500 - -", "500 two -", "500 three -"]);
  assert.deepEqual(await list([page([1, 2])], true), { from: "7", queries: ["- - 0"], items: 2 });
});

Deno.test("the limit is for each object, not for the list", async () => {
  const large = "x".repeat(9 * 2 ** 20);
  assert.equal((await list([page([large, large])], true)).items, 2);
});
