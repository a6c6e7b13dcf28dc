/** Labels of Nodes and Pods, which weights may refer to. */
import assert from "node:assert/strict";
import { withSource } from "./source_under_test.ts";

Deno.test("labels of all nodes are read as metadata alone, and only of objects with the label", async () => {
  await withSource((server) => {
    server.apply({ kind: "Node", metadata: { name: "n2", labels: { disk: "ssd" } } });
  }, async ({ server, receives }) => {
    await receives("set NodeLabels n2 2");
    await server.watches(1);
    const nodes = server.requests.filter(({ path }) => path === "/api/v1/nodes");
    const [list, watch] = nodes;
    assert.equal(list!.query["labelSelector"], "disk");
    assert.equal(list!.query["fieldSelector"], undefined);
    assert.match(list!.headers.get("accept")!, /as=PartialObjectMetadataList;.*,application\/json$/);
    assert.match(watch!.headers.get("accept")!, /as=PartialObjectMetadata;.*,application\/json$/);
    // The fake server has no pods: that delays nothing.
    await receives("synced PodLabels");
    const pods = server.requests.find(({ path }) => path === "/api/v1/pods");
    assert.equal(pods!.query["labelSelector"], undefined);
  }, { kinds: ["NodeLabels", "PodLabels"], labelKeys: { nodes: ["disk"], pods: ["version", "track"] } });
});
