import assert from "node:assert/strict";
import { placesOf, whyClosed } from "../../../relay/listeners.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";

const REDIRECT = { by: "redirect", udpAddress: "192.168.1.1" } as const;
const LOCALHOST = { by: "localhost-node-ports", addresses: ["127.0.0.1", "::1"] } as const;

Deno.test("each list of endpoints that a verdict names has a place", () => {
  const listsOf = (changes: Parameters<typeof fakeServicePort>[1]) =>
    placesOf(fakeServicePort("default/web", changes), "IPv4", REDIRECT).map(({ list }) => list);
  assert.deepEqual(listsOf({}), ["cluster"]);
  assert.deepEqual(listsOf({ internal: "local" }), ["local"]);
  assert.deepEqual(listsOf({ internal: "local", nodePort: 30080 }), ["cluster", "local"]);
  assert.deepEqual(listsOf({ internal: "drop", nodePort: 30080 }), ["cluster"]);
  assert.deepEqual(listsOf({ internal: "reject", external: "reject", nodePort: 30080 }), []);
  assert.deepEqual(listsOf({ protocol: "sctp" }), []);
  // The node's own traffic goes to the whole cluster, although policy Local finds no endpoint here.
  assert.deepEqual(listsOf({ internal: "reject", external: "drop", nodePort: 30080 }), ["cluster"]);
});

Deno.test("TCP listens on the wildcard address, UDP on the address that rules send it to", () => {
  const web = fakeServicePort("default/web"), dns = fakeServicePort("default/dns", { protocol: "udp" });
  assert.deepEqual(placesOf(web, "IPv4", REDIRECT), [{ list: "cluster", address: "0.0.0.0", port: 0 }]);
  assert.deepEqual(placesOf(web, "IPv6", REDIRECT), [{ list: "cluster", address: "::", port: 0 }]);
  assert.deepEqual(placesOf(dns, "IPv4", REDIRECT), [{ list: "cluster", address: "192.168.1.1", port: 0 }]);
});

Deno.test("a node port is served at the loopback addresses of the family", () => {
  const web = fakeServicePort("default/web", { nodePort: 30080, external: "local" });
  assert.deepEqual(placesOf(web, "IPv4", LOCALHOST), [{ list: "cluster", address: "127.0.0.1", port: 30080 }]);
  assert.deepEqual(placesOf(web, "IPv6", LOCALHOST), [{ list: "cluster", address: "::1", port: 30080 }]);
  assert.deepEqual(placesOf(fakeServicePort("default/web"), "IPv4", LOCALHOST), []);
  const limitedTo = (...nodePortPrefixes: string[]) => placesOf({ ...web, nodePortPrefixes }, "IPv4", LOCALHOST);
  assert.deepEqual(limitedTo("192.168.0.0/16"), []);
  assert.deepEqual(limitedTo(), []);
  assert.deepEqual(limitedTo("192.168.0.0/16", "127.0.0.0/8"), placesOf(web, "IPv4", LOCALHOST));
});

Deno.test("a node port without endpoints is not served at loopback addresses; UDP flows to an endpoint that lingers go on", () => {
  const none = { nodePort: 30080, clusterEndpoints: [], internal: "reject", external: "reject" } as const;
  for (const [lingeringEndpoints, places] of [[[], 0], [["10.1.0.1:53"], 1]] as const) {
    const dns = fakeServicePort("default/dns", { ...none, protocol: "udp", lingeringEndpoints });
    assert.equal(placesOf(dns, "IPv4", LOCALHOST).length, places);
  }
  assert.deepEqual(placesOf(fakeServicePort("default/web", none), "IPv4", LOCALHOST), []);
});

Deno.test("an error of the system says what to do", () => {
  const at = (port: number) => ({ list: "cluster", address: "::", port }) as const;
  const text = (message: string, port = 0) => whyClosed(at(port), new Error(message));
  assert.equal(text("listen EMFILE"), "cannot listen on [::]:0: too many open files (raise LimitNOFILE)");
  assert.match(text("Address already in use (os error 98)"), /no free port \(widen net.ipv4.ip_local_port_range\)$/);
  assert.match(text("listen EADDRINUSE: address already in use", 30080), /:30080: another program uses the port$/);
  assert.match(text("permission denied"), /: permission denied$/);
});
