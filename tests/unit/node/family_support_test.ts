import assert from "node:assert/strict";
import type { FamilyHealth } from "../../../core/channel/mod.ts";
import { watchSupport } from "../../../node/family_observers.ts";

const unsupported = (reason: string): FamilyHealth => ({ state: "unfit", reason, unsupported: true });

function watch() {
  const events: string[] = [];
  const warn = (message: string, fields: object = {}) => void events.push(`${message} ${JSON.stringify(fields)}`);
  return { events, note: watchSupport({ warn }, (reasons) => void events.push(`neither: ${reasons}`)) };
}

Deno.test("a host that can serve neither family reports both reasons once, and never serves the other one only", () => {
  const { events, note } = watch();
  note("IPv6", unsupported("no ip6tables"));
  note("IPv4", unsupported("no iptables"));
  assert.deepEqual(events, ["neither: IPv4: no iptables; IPv6: no ip6tables"]);
  const same = watch();
  same.note("IPv4", unsupported("no nft"));
  same.note("IPv6", unsupported("no nft"));
  assert.deepEqual(same.events, ["neither: no nft"]);
});

Deno.test("a family that cannot be served is reported once the other one is ready", () => {
  const { events, note } = watch();
  note("IPv6", unsupported("no ip6tables"));
  note("IPv4", { state: "starting" });
  assert.deepEqual(events, []);
  note("IPv4", { state: "ready" });
  note("IPv6", unsupported("no ip6tables"));
  assert.equal(events.length, 1);
  assert.match(events[0]!, /serving the other one only .*IPv6.*no ip6tables/);
  note("IPv6", { state: "ready" });
  note("IPv6", unsupported("gone again"));
  assert.equal(events.length, 2, "a new loss is a new warning");
});

Deno.test("a family that may be served after all does not count when the other one cannot be", () => {
  const { events, note } = watch();
  note("IPv6", unsupported("no ip6tables"));
  note("IPv6", { state: "restarting", reason: "it has ended", restarts: 1 });
  note("IPv4", unsupported("no iptables"));
  assert.deepEqual(events, []);
});
