import assert from "node:assert/strict";
import { SERVICE } from "../../../../kpng/messages/messages.ts";
import { createDocumentedState, describeOperation, OP_ITEM, SETS } from "../../../../kpng/messages/mod.ts";

Deno.test("a deletion names its set and path", () => {
  const bytes = OP_ITEM.encode({ delete: { set: SETS.ServicesSet, path: "default/web" } });
  assert.deepEqual(describeOperation(bytes), { op: "delete", set: "services", path: "default/web" });
});

Deno.test("a service is described by its type, addresses and ports, with their node ports", () => {
  const describe = (message: Parameters<typeof SERVICE.encode>[0]) => {
    const ref = { set: SETS.ServicesSet, path: "default/web" };
    const described = describeOperation(OP_ITEM.encode({ set: { ref, bytes: SERVICE.encode(message) } }));
    return described !== undefined && "text" in described ? described.text : undefined;
  };
  const ports = [{ protocol: 1, port: 80 }, { protocol: 2, port: 53, nodePort: 30053 }];
  const ips = { clusterIPs: { v4: ["10.0.0.1"], v6: ["fd00::1"] }, externalIPs: { v4: ["192.0.2.1"], v6: [] } };
  assert.equal(
    describe({ namespace: "default", name: "web", type: "NodePort", ips, ports }),
    "NodePort 10.0.0.1,fd00::1,192.0.2.1 80/TCP,53:30053/UDP",
  );
  assert.equal(describe({ namespace: "default", name: "web", type: "ClusterIP" }), "ClusterIP headless");
});

Deno.test("the document has the whole state after each round, sorted", () => {
  const state = createDocumentedState("node-a");
  const take = (op: "set" | "delete", set: "services" | "endpoints", path: string, value?: object) =>
    assert.equal(state({ op, set, path, value }), undefined);
  take("set", "services", "default/web", { Name: "web" });
  take("set", "services", "default/api", { Name: "api" });
  take("set", "endpoints", "default/web/pod-2", { Local: true });
  take("set", "endpoints", "default/web/pod-1", {});
  assert.deepEqual(state({ op: "sync" }), {
    node: "node-a",
    services: [
      { path: "default/api", service: { Name: "api" }, endpoints: [] },
      {
        path: "default/web",
        service: { Name: "web" },
        endpoints: [{ path: "default/web/pod-1", endpoint: {} }, {
          path: "default/web/pod-2",
          endpoint: { Local: true },
        }],
      },
    ],
  });
  take("delete", "endpoints", "default/web/pod-1");
  take("delete", "services", "default/api");
  const after = state({ op: "sync" });
  assert.deepEqual(after?.services.map(({ path, endpoints }) => [path, endpoints.length]), [["default/web", 1]]);
  assert.equal(state({ op: "reset" }), undefined);
  assert.deepEqual(state({ op: "sync" })?.services, []);
});
